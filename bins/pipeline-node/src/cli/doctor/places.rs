//! Whether what the file names on disk can be there: folders and files of segments, the key, the admin socket. Deliberately nothing is
//! made and nothing is asked: whether another node answers at the socket is left to `run`, which says who.

use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use pipeline_configs::{Config, SegmentKind};

use super::Verdict;

/// Longest path of a unix socket, bytes.
const SOCKET_PATH_MAX: usize = 107;

/// All of it.
pub fn all(config: &Config) -> Vec<Verdict> {
    stands(config).into_iter().chain(admin(config)).collect()
}

/// The folder that something lies in.
fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Where the admin socket is to be.
fn admin(config: &Config) -> Option<Verdict> {
    let path = config.admin_socket.as_ref()?;
    let (shown, folder) = (path.display(), folder_of(path));
    let found = |what: &str| format!("[admin] socket {shown} {what}");
    let verdict = match std::fs::symlink_metadata(path) {
        _ if path.as_os_str().len() > SOCKET_PATH_MAX => Verdict::ill(
            "admin",
            found("is too long: a socket's path has at most 107 bytes"),
            "name a shorter path",
        ),
        _ if !folder.is_dir() => {
            let mend = format!("mkdir -p {}", folder.display());
            Verdict::ill("admin", found(&format!("cannot be made: {} is no folder", folder.display())), mend)
        }
        Ok(there) if !there.file_type().is_socket() => Verdict::ill(
            "admin",
            found("is there and is no socket"),
            format!("move it away, or name another path: {shown}"),
        ),
        _ => Verdict::well("admin", found("can be made")),
    };
    Some(verdict)
}

/// Folders and files that segments and the key stand on.
fn stands(config: &Config) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for segment in &config.segments {
        let (path, folder) = match &segment.kind {
            SegmentKind::Dir { path, .. } => (path, path.as_path()),
            SegmentKind::File { path, .. } => (path, folder_of(path)),
            _ => continue,
        };
        if !folder.is_dir() {
            let mend = format!("mkdir -p {}", folder.display());
            let found = format!(
                "segment `{}` lies at {}, and {} is no folder",
                segment.name,
                path.display(),
                folder.display()
            );
            verdicts.push(Verdict::ill("paths", found, mend));
        }
    }
    if let Some(key) = config.auth_key_file.as_ref().filter(|key| std::fs::File::open(key).is_err()) {
        let found = format!("[auth] key_file {} cannot be read", key.display());
        let mend = format!(
            "make one and give it to every node: head -c 32 /dev/urandom | base64 > {0} && chmod 600 {0}",
            key.display()
        );
        verdicts.push(Verdict::ill("paths", found, mend));
    }
    verdicts
}
