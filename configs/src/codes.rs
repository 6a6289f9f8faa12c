//! The stable codes of findings: P00 syntax and files, P01 graph, P02 pools and CPUs, P03 limits, P04 the keys
//! of a table, P05 this machine. Deliberately a table: documentation and goldens are made from it. A code is
//! never given a second meaning.

/// A stable code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Code(pub u16);

impl std::fmt::Display for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "P{:04}", self.0)
    }
}

macro_rules! codes {
    ($($name:ident = $number:literal $doc:literal;)*) => {
        $(#[doc = $doc] pub const $name: Code = Code($number);)*
        /// Every code with one sentence, in ascending order.
        pub const ALL: &[(Code, &str)] = &[$(($name, $doc)),*];
    };
}

codes! {
    UNREADABLE = 1 "The file cannot be read.";
    SYNTAX = 2 "The text is not TOML.";
    TOML_1_1 = 3 "The syntax is TOML 1.1 only; files are TOML 1.0 so that every editor can read them.";
    TWICE = 4 "A key or a table is given twice.";
    VERSION = 5 "`version` is missing, or names a schema that this release does not know.";
    PRESET = 6 "`use` names a preset that does not exist or cannot be read.";
    PRESET_DEPTH = 7 "A preset uses another preset; presets are one deep.";
    REMOVES_NOTHING = 8 "`= false` removes something that the preset does not have.";
    INTERPOLATION = 9 "A `${…}` in a string cannot be resolved.";
    OVERRIDE = 10 "A `--set` or a `PIPELINE_NODE__…` variable cannot be read.";
    UNKNOWN_VARIABLE = 11 "A `PIPELINE_NODE…` variable changes nothing.";
    STAGE_UNKNOWN = 101 "An edge names a stage that does not exist.";
    PORT_UNKNOWN = 102 "An edge names an output port that its stage does not have.";
    EDGE_KEY = 103 "The key of an edge cannot be read.";
    EDGE_VALUE = 104 "The value of an edge cannot be read.";
    PORT_TWICE = 105 "One output port is wired twice; a port has one wire.";
    WILDCARD_EMPTY = 106 "A wildcard edge matches no port.";
    CYCLE = 107 "Edges, or edges and resources, can fill up together and stop for ever.";
    INLINE_ACROSS = 108 "An inline edge joins stages of different pools.";
    PORT_UNWIRED = 109 "An output port that must be wired is not.";
    UNREACHABLE = 110 "Nothing reaches a stage.";
    DEAD_END = 111 "What enters a stage can never end.";
    RETURN_RULE = 112 "A return edge is used where it may not be.";
    ENTRY = 113 "The graph has no way in, or `submit` is used wrongly.";
    REJECT_UNWIRED = 115 "`when_full = \"reject\"` needs a wire from the port `failed`.";
    GRAPH_RULE = 116 "A rule of the stages about the order of the graph is broken.";
    POOL_EMPTY = 201 "A pool has no stages.";
    POOL_MISSING = 202 "A stage needs a pool, or must not have one.";
    POOL_UNKNOWN = 203 "A stage names a pool that does not exist.";
    CPUS = 204 "A list of CPUs cannot be read.";
    WAIT = 205 "The `wait` of a pool cannot be read.";
    POOL_RULE = 206 "A queue ends at a stage without a pool, so nobody would empty it.";
    CALLER = 207 "A pool of kind `caller` is given threads, or a stage that needs a thread of the engine.";
    WAIT_PRICE = 208 "`price` stands in a `wait` that does not adapt, so nothing is weighed by it.";
    NOT_PARALLEL = 209 "A stage that keeps something or waits for something is in a pool of kind `stealing`.";
    REGISTER = 210 "`[limits] register` names a pool that is not of kind `stealing`.";
    WAIT_UNUSED = 211 "`wait` stands in a pool of kind `stealing`, whose threads wait in a way of their own.";
    RANGE = 301 "A value is outside its permitted range.";
    LIMITS_UNFIT = 302 "Limits do not fit together.";
    KEY_UNKNOWN = 401 "A table has a key that it does not know.";
    TYPE = 402 "A value has the wrong type.";
    KEY_MISSING = 403 "A table lacks a key that it must have.";
    UNIT = 404 "A size, time or share cannot be read.";
    WORD = 405 "A value is not one of the words that its key knows.";
    KIND_UNKNOWN = 406 "`type` or `kind` names something that does not exist.";
    TABLE_UNKNOWN = 407 "The file has a table that this release does not know.";
    LATER = 408 "The setting comes with a later release; `run` refuses the file until then.";
    NAME = 409 "A name breaks the rules for names.";
    NAME_SHARED = 410 "Two tables use one name for different things.";
    ADDRESS = 411 "An address cannot be read.";
    TRANSPORT_UNKNOWN = 412 "A key names a transport that is not declared.";
    EXCLUSIVE = 413 "Keys exclude each other.";
    NO_EFFECT = 414 "The setting has no effect until a later release; `run` goes on without it.";
    RENAMED = 415 "A key has a new name; the old one is read for one minor version.";
    PEER_UNKNOWN = 416 "A route names a peer that is not declared.";
    NIC_UNUSED = 417 "A NIC is described that no transport uses.";
    NIC_UNKNOWN = 418 "`[topology]` names a NIC that no transport uses.";
    MATRIX = 419 "The file that `matrix` names cannot be read, or is no priority matrix.";
    TRANSPORT_RULE = 420 "A setting of a transport can be read and cannot work: nobody would reach it, or another one has it already.";
    CPU_ABSENT = 501 "A CPU is not allowed or not present on this machine.";
    CPU_CROWDED = 502 "More workers spin than this machine has CPUs.";
    CPU_NOWHERE = 503 "`cores` names a place that has no CPUs on this machine; `run` refuses the file here.";
    NIC_ILL = 504 "A NIC of a transport cannot be used on this machine now.";
    NUMA_ABSENT = 505 "A NUMA node is not present on this machine.";
}

/// The page `docs/findings.md`, made from the table.
pub fn page() -> String {
    let mut page = String::from(
        "# Findings\n\nWhat `validate` and `run` say about a file. Each finding has a place, a code and help; a code never changes its\n\
         meaning. All come in one run, sorted by place; `validate --json` prints one object a line. Generated from\n\
         `configs/src/codes.rs`; every code is shown, word for word, by a file in `configs/tests/ui`.\n\n\
         | code | meaning |\n|---|---|\n",
    );
    for (code, doc) in ALL {
        page.push_str(&format!("| {code} | {} |\n", doc.replace('|', "\\|")));
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Codes ascend, so none is used twice.
    #[test]
    fn codes_are_unique() {
        assert!(ALL.windows(2).all(|w| w[0].0 < w[1].0));
        assert_eq!(CYCLE.to_string(), "P0107");
    }
}
