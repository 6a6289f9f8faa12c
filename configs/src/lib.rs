//! TOML to a blueprint, with findings that have a line and a column.
//!
//! It knows the file: its tables, its units, its presets, and how each thing in it can be wrong. It
//! deliberately does not know what a stage does: stage and transport types come from a [`Catalog`].

pub mod config;
pub mod schema;

pub use config::{Config, Limits, Node, SegmentConfig, SegmentKind, StageConfig, TransportConfig};
pub use schema::{Catalog, Facts, Key, Kind, StageKind, TransportKind, Value, Values};
