//! Where an engine's settings come from: a file or a text, with the environment and overrides on top.
//! Deliberately nothing is read from the environment unless asked: an embedded engine is what its program says.

use std::collections::BTreeMap;
use std::path::PathBuf;

use pipeline_configs::{Findings, Loaded, Options, load, load_as, load_str};
use pipeline_stages::catalog;

/// A file or a text, and what overrides it.
#[derive(Clone, Debug)]
pub struct Source {
    from: From,
    options: Options,
}

#[derive(Clone, Debug)]
enum From {
    File(PathBuf),
    Text { name: String, text: String },
    TextAt { path: PathBuf, text: String },
}

impl Source {
    /// A TOML file.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self { from: From::File(path.into()), options: Options::default() }
    }

    /// TOML text; `name` stands for the file in findings. Relative paths in it start at the working directory.
    pub fn text(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self { from: From::Text { name: name.into(), text: text.into() }, options: Options::default() }
    }

    /// TOML text that stands for the file at `path`, where relative paths in it start: for what is not written yet.
    pub fn text_at(path: impl Into<PathBuf>, text: impl Into<String>) -> Self {
        Self { from: From::TextAt { path: path.into(), text: text.into() }, options: Options::default() }
    }

    /// Overrides, `pools.nic.threads=2`; the last one wins, and all of them win over the file.
    #[must_use]
    pub fn set(mut self, overrides: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.options.set.extend(overrides.into_iter().map(Into::into));
        self
    }

    /// Takes the process environment in, for `${VAR}` and `PIPELINE_NODE__…`.
    #[must_use]
    pub fn environment(mut self) -> Self {
        let utf8 = |(k, v): (std::ffi::OsString, std::ffi::OsString)| {
            Some((k.into_string().ok()?, v.into_string().ok()?))
        };
        self.options.env = std::env::vars_os().filter_map(utf8).collect::<BTreeMap<_, _>>();
        self
    }

    /// Judges and lowers it.
    ///
    /// # Errors
    /// All findings, when at least one is an error.
    pub fn load(&self) -> Result<Loaded, Findings> {
        let mut options = self.options.clone();
        let cpus = pipeline_graph::Cpus::of_process();
        (options.cpus, options.budget) = (cpus.allowed.clone(), cpus.budget());
        options.near = Some(pipeline_graph::near::Near::of_machine());
        match &self.from {
            From::File(path) => load(path, &catalog::catalog(), &options),
            From::TextAt { path, text } => load_as(path, text, &catalog::catalog(), &options),
            From::Text { name, text } => load_str(name, text, &catalog::catalog(), &options),
        }
    }
}
