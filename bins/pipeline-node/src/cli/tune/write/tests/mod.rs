//! What a rewritten file looks like, and that whatever can be measured can be written.

use std::path::Path;

use pipeline_node::Source;

use super::super::args::Allow;
use super::super::space::{Change, Space};
use super::*;

fn rewritten(text: &str, changes: &[Change]) -> String {
    rewrite(text, "", changes, "NOTE").unwrap()
}

/// Comments, order, blanks and everything that is not changed stay; behind each changed line stands what it was, after what the user
/// wrote there; a pool that the file declares is gone, one key of an inline table is changed within it.
#[test]
fn a_file_of_inline_tables() {
    let text = r#"# A file.
version = 1
use = "tcp"

[pools]
front = { threads = 4, wait = "spin" }
nic = { threads = 4,  wait = { spin = "100ms", park = "1s" } }   # two CPUs

[stages]
admit = { pool = "front" }
split = { pool = "front", slice = "4KiB" }     # small
route   = { pool = "front" }

[edges]
"submit -> admit" = { queue = 1, dispatch = "hash" }
"admit->split -> route" = { queue = 1 }
"#;
    let changes = [
        Change::new(&["pools", "nic", "threads"], "1", "4"),
        Change::new(&["pools", "nic", "wait"], "\"park\"", "{ spin = \"100ms\", park = \"1s\" }"),
        Change::new(&["pools", "front"], "false", "a pool of its own"),
        Change::new(&["stages", "admit", "pool"], "\"nic\"", "\"front\""),
        Change::new(&["stages", "split", "slice"], "\"auto\"", "\"4KiB\""),
        Change::new(&["edges", "submit -> admit", "queue"], "64", "1"),
        Change::new(&["edges", "admit -> split -> route"], "\"inline\"", "{ queue = 1 }"),
    ];
    let wanted = r#"# A file.
version = 1
use = "tcp"

[pools]
nic = { threads = 1,  wait = "park" }  # two CPUs; tune: threads was 4, wait was { spin = "100ms", park = "1s" }; NOTE

[stages]
admit = { pool = "nic" }  # tune: pool was "front"; NOTE
split = { pool = "front", slice = "auto" }  # small; tune: slice was "4KiB"; NOTE
route   = { pool = "front" }

[edges]
"submit -> admit" = { queue = 64, dispatch = "hash" }  # tune: queue was 1; NOTE
"admit->split -> route" = "inline"  # tune: was { queue = 1 }; NOTE
"#;
    assert_eq!(rewritten(text, &changes), wanted);
}

/// What the preset says is overridden where it belongs: in the table that is there, else in one of its own behind all others. The
/// preset is left as it is.
#[test]
fn a_file_that_uses_a_preset() {
    let changes = [
        Change::new(&["pools", "nic", "threads"], "2", "1"),
        Change::new(&["edges", "select -> post", "queue"], "256", "64"),
        Change::new(&["edges", "*.retry -> retry"], "{ queue = 16 }", "\"inline\""),
        Change::new(&["transports", "tcp", "lanes"], "4", "2"),
    ];
    let short = "version = 1\nuse = \"tcp\"  # the preset\n";
    let wanted = "version = 1\nuse = \"tcp\"  # the preset\n\n[pools.nic]\nthreads = 2  # tune: was 1; NOTE\n\n\
                  [edges]\n\"select -> post\" = { queue = 256 }  # tune: was 64; NOTE\n\
                  \"*.retry -> retry\" = { queue = 16 }  # tune: was \"inline\"; NOTE\n\n\
                  [transports.tcp]\nlanes = 4  # tune: was 2; NOTE\n";
    assert_eq!(rewritten(short, &changes), wanted);
    let with_tables = "version = 1\nuse = \"tcp\"\n[pools]\nfiles.wait = \"park\"\n[node]\nname = \"x\"\n";
    let wanted = "version = 1\nuse = \"tcp\"\n[pools]\nfiles.wait = \"park\"\nnic.threads = 2  # tune: was 1; NOTE\n\
                  [node]\nname = \"x\"\n";
    assert_eq!(rewritten(with_tables, &changes[..1]), wanted);
}

/// Dotted keys stay dotted, and their neighbours are added beside them; a table becomes the value that stands for it.
#[test]
fn a_file_of_dotted_keys() {
    let text = "version = 1\npools.nic.threads = 4 # four\nsegments.kv.size = \"1MiB\"\n\n\
                [pools.front]\nthreads = 2\n\n[pools.front.wait]\nspin = \"1s\"\n\n# the end\n";
    let changes = [
        Change::new(&["pools", "nic", "threads"], "2", "4"),
        Change::new(&["pools", "nic", "wait"], "\"park\"", "\"adaptive\""),
        Change::new(&["pools", "front", "wait"], "\"park\"", "{ spin = \"1s\" }"),
    ];
    let wanted = "version = 1\npools.nic.threads = 2  # four; tune: was 4; NOTE\n\
                  pools.nic.wait = \"park\"  # tune: was \"adaptive\"; NOTE\nsegments.kv.size = \"1MiB\"\n\n\
                  [pools.front]\nthreads = 2\nwait = \"park\"  # tune: was { spin = \"1s\" }; NOTE\n\n# the end\n";
    assert_eq!(rewritten(text, &changes), wanted);
}

/// A second run replaces what the first one said behind a line, and keeps what the user said there.
#[test]
fn a_second_run_has_the_last_word() {
    let first = rewritten(
        "version = 1\n[pools]\nnic.threads = 4 # four\n",
        &[Change::new(&["pools", "nic", "threads"], "2", "4")],
    );
    let second =
        rewrite(&first, "", &[Change::new(&["pools", "nic", "threads"], "1", "2")], "again").unwrap();
    assert_eq!(second, "version = 1\n[pools]\nnic.threads = 1  # four; tune: was 2; again\n");
}

/// Writes each level of each knob of a file into it, as far as it is sound, and compares what that says to what was measured; answers
/// how many.
fn written_levels(path: &Path, text: &str) -> usize {
    let source = || Source::text_at(path, text);
    let Ok(loaded) = source().load() else { return 0 };
    let space = Space::new(loaded, &[], &[Allow::Spin, Allow::Caller, Allow::Awake], 4);
    let preset = preset_of(&space.loaded);
    let mut written = 0;
    for knob in 0..space.knobs.len() {
        for level in 1..space.knobs[knob].levels.len() {
            let mut candidate = space.base();
            candidate[knob] = level as u8;
            let changes = space.changes(&candidate);
            let set: Vec<String> = changes.iter().map(Change::set).collect();
            let Ok(measured) = source().set(set.clone()).load() else { continue };
            let new = rewrite(text, preset, &changes, "NOTE");
            let new = new.unwrap_or_else(|why| panic!("{}: {set:?}: {why}", path.display()));
            let told = || format!("{}: {set:?}\n{new}", path.display());
            let loaded = Source::text_at(path, &new).load();
            let loaded = loaded.unwrap_or_else(|findings| panic!("{}\n{}", findings.text(), told()));
            same(&loaded, &measured).unwrap_or_else(|why| panic!("{why}\n{}", told()));
            written += 1;
        }
    }
    written
}

/// A pool of the preset of which the file says something goes by a line of the file, not by taking that away: then what the preset says
/// would hold again. However the file says it, and whatever else it says.
#[test]
fn pools_of_the_preset_go() {
    let head = "version = 1\nuse = \"pipeline\"\n";
    for said in [
        "[pools]\nsplit.threads = 2\n",
        "pools.split.threads = 2 # two\npools.route.wait = \"adaptive\"\n",
        "pools = { split = { threads = 2 } }\n",
        "[pools]\nsplit = { threads = 2, wait = { spin = \"20us\", park = \"1s\" } }   # two\n[stages]\nsplit.slice = \"64KiB\"\n",
        "[pools.split]\n# two\nthreads = 2\n\n[pools.split.wait]\nspin = \"20us\"\n\n[node]\nname = \"x\"\n",
        "",
    ] {
        let text = format!("{head}{said}");
        assert!(written_levels(Path::new("t.toml"), &text) > 100, "{text}");
    }
    let text = format!("{head}[pools]\nsplit.threads = 2 # two\n");
    let preset = "[pools]\nsplit = { threads = 1 }\n";
    let gone = Change::new(&["pools", "split"], "false", "a pool of its own");
    let new = rewrite(&text, preset, &[gone], "NOTE").unwrap();
    assert_eq!(new, format!("{head}[pools]\nsplit = false  # tune: was a pool of its own; NOTE\n"));
}

/// Each level of each knob of every shipped file, as far as it is sound, can be written into that file, and the new text says in every
/// value what was measured.
#[test]
fn whatever_is_measured_can_be_written() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../configs");
    let files =
        ["pipelines", "models"].iter().flat_map(|folder| std::fs::read_dir(root.join(folder)).unwrap());
    let written: usize = files
        .map(|entry| entry.unwrap().path())
        .map(|path| written_levels(&path, &std::fs::read_to_string(&path).unwrap()))
        .sum();
    assert!(written > 500, "{written} changes were written: the space is empty");
}
