//! Stage types that validate already and that a later release carries out. Deliberately only their shapes: the graph
//! around them is judged as it will be, and `run` refuses the file.

use pipeline_configs::schema::Change;
use pipeline_configs::{Facts, Key, Kind, StageKind, Values};
use pipeline_graph::{Contract, Port, Seat, Shape, Stage};

use crate::spec::Making;

/// `checksum`.
pub(super) const CHECKSUM: StageKind = StageKind {
    name: "checksum",
    summary: "Checks the bytes of a slice end to end: reads it back on either side and compares.",
    keys: &[Key {
        name: "algorithm",
        kind: Kind::Word(&["crc32c", "xxh3"]),
        default: Some("crc32c"),
        doc: "What is computed over the bytes of a slice.",
        change: Change::Rebuild,
        ..Key::PLAIN
    }],
    shape: checksum,
    later: Some("checksums"),
};

fn checksum(_: &Values, _: &Facts) -> Shape {
    let ports = vec![Port::required("out"), Port::optional("retry"), Port::required("failed")];
    Shape { ports, contract: Contract::default() }
}

/// Never reached by a file that `run` took; says so to whoever assembles one by hand.
pub(super) fn refuse(making: &Making, _: &Seat) -> Result<Box<dyn Stage<crate::key::Key>>, String> {
    let stage = &making.config.stages[making.stage];
    Err(format!("stage type `{}` comes with a later release", stage.kind))
}
