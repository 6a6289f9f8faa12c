//! Folders that a copy to here makes. If it is interrupted, or comes to nothing, those that are still empty go again. Deliberately
//! by `rmdir` alone: what was there, and what has anything in it, is never touched.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};

use pipeline_stages::files::{Generation, Made, Tree};

/// See the module.
#[derive(Default)]
pub struct Folders {
    /// Held by whoever makes one, and for good by who takes them away at the end of the program.
    making: RwLock<()>,
    list: Mutex<List>,
}

#[derive(Default)]
struct List {
    /// The destination and those above it.
    base: Vec<PathBuf>,
    /// What the others are in.
    tree: Option<Arc<Tree>>,
    inside: Made,
    generation: Weak<Generation>,
}

impl Folders {
    fn list(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the folder of the destination and those above it, and opens it.
    ///
    /// # Errors
    /// The system's reason.
    pub fn open(&self, base: &Path) -> io::Result<Arc<Tree>> {
        self.making(|| {
            let mut list = self.list();
            make(base, &mut list.base)?;
            let tree = Tree::open(base)?;
            list.tree = Some(tree.clone());
            Ok(tree)
        })
    }

    /// Does what may make folders; what it has made it tells by [`Self::note`].
    pub fn making<R>(&self, make: impl FnOnce() -> R) -> R {
        let _making = self.making.read().unwrap_or_else(PoisonError::into_inner);
        make()
    }

    /// These were made in the tree.
    pub fn note(&self, made: &Made) {
        self.list().inside.add(made);
    }

    /// This is being built in the tree.
    pub fn note_generation(&self, generation: &Arc<Generation>) {
        self.list().generation = Arc::downgrade(generation);
    }

    /// Takes away the destination and those above it, of those that are empty.
    pub fn remove_destination(&self) {
        for path in self.list().base.iter().rev() {
            let _ = std::fs::remove_dir(path);
        }
    }

    /// Takes all away that are empty.
    pub fn remove(&self) {
        let list = self.list();
        if let Some(tree) = &list.tree {
            tree.unmake(&list.inside);
        }
        drop(list);
        self.remove_destination();
    }

    /// The same at the end of the program, however much is under way: nobody makes one any more.
    pub fn end(&self, exit: impl FnOnce()) {
        let _closed = self.making.write().unwrap_or_else(PoisonError::into_inner);
        let generation = self.list().generation.upgrade();
        if let Some(generation) = generation {
            generation.abandon();
        }
        self.remove();
        exit();
    }
}

/// Makes a folder and those above it, and adds those that were not there to `made`.
fn make(path: &Path, made: &mut Vec<PathBuf>) -> io::Result<()> {
    let mut ended = std::fs::create_dir(path);
    let above = path.parent().filter(|above| !above.as_os_str().is_empty());
    if let (Err(e), Some(above)) = (&ended, above)
        && e.kind() == io::ErrorKind::NotFound
    {
        make(above, made)?;
        ended = std::fs::create_dir(path);
    }
    match ended {
        Ok(()) => made.push(path.to_owned()),
        Err(_) if path.is_dir() => {}
        Err(e) => return Err(e),
    }
    Ok(())
}
