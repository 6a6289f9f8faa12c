//! How a copy is made: the options that both directions share.

use clap::Args as ClapArgs;
use pipeline_node::How;

use crate::cli::quantity;

/// See the module.
#[derive(Clone, Copy, Debug, Default, ClapArgs)]
pub struct Rules {
    /// Go on where an interrupted copy stopped, and leave for the next one what this one cannot finish. Files and
    /// blocks that are there are compared by SHA-256, never trusted.
    #[arg(long)]
    pub resume: bool,
    /// Do not send files that are the same at the destination: length, executable bit, and SHA-256 read at both ends.
    #[arg(long, visible_alias = "checksum")]
    pub skip_unchanged: bool,
    /// Replace the folder DST as a whole, at one moment: readers see the old tree or the new one. Files that are the
    /// same are taken over by hard links. Nothing is published if anything fails.
    #[arg(long, conflicts_with = "resume")]
    pub atomic: bool,
    /// Have files on the disk before they are seen under their names.
    #[arg(long)]
    pub fsync: bool,
    /// Send at most so many bytes a second: 50MiB, 1GB; with a unit (a bare number would be KiB for rsync and rclone), and at
    /// least 1KiB.
    #[arg(long, value_name = "RATE", value_parser = quantity::bytes_per_s)]
    pub bwlimit: Option<u64>,
}

impl Rules {
    /// Whether files are looked at before they are sent.
    pub fn compares(&self) -> bool {
        self.resume || self.skip_unchanged || self.atomic
    }

    /// How a file is begun.
    pub fn how(&self, executable: bool) -> How {
        How { executable, keep: self.resume, sync: self.fsync, link: None }
    }
}
