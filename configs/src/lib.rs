//! TOML to a blueprint, with findings that have a line and a column.
//!
//! It knows the file: its tables, its units, its presets, and how each thing in it can be wrong. It
//! deliberately does not know what a stage does: stage and transport types come from a [`Catalog`].
//!
//! [`load()`] reads text into a spanned tree ([`document`]), lays it over its preset ([`preset`]), reads every
//! table against its declared keys ([`body`]), resolves edges ([`wiring`]) and lets the graph's rules judge
//! the whole. Every fault is one [`Finding`]; all of them come in one run.

pub mod address;
mod alone;
pub mod body;
pub mod codes;
pub mod config;
pub mod cpu_list;
pub mod directory;
pub mod document;
pub mod edges;
pub mod finding;
pub mod interpolate;
pub mod json_schema;
pub mod judge;
pub mod levels;
pub mod limits;
pub mod load;
pub mod lower;
pub mod matrix;
mod misspelt;
pub mod names;
pub mod nics;
pub mod node;
pub mod numa;
pub mod overrides;
pub mod peers;
pub mod plain;
pub mod pools;
pub mod preset;
pub mod reference;
pub mod render;
pub mod routes;
pub mod schema;
pub mod segments;
pub mod settings;
pub mod show;
pub mod source;
pub mod stages;
pub mod suggest;
pub mod tables;
pub mod toml_version;
pub mod topology;
pub mod transports;
pub mod tree;
pub mod typed;
pub mod units;
pub mod value;
pub mod wait;
pub mod wiring;

pub use config::{
    Config, DirectoryConfig, Interface, Limits, NicConfig, Node, PullFrom, RouteConfig, SegmentConfig,
    SegmentKind, StageConfig, TopologyConfig, TransportConfig,
};
pub use finding::{Finding, Findings, Severity};
pub use load::{Loaded, Options, load, load_as, load_str};
pub use lower::Places;
pub use matrix::{Lists, Location, Matrix};
pub use preset::{PRESETS, Preset};
pub use schema::{
    Catalog, Facts, Former, Key, Kind, Later, Objection, SettingObjection, StageKind, TransportKind, Value,
    Values,
};
pub use source::{Sources, Span};
pub use transports::{nic_group, nic_groups};
