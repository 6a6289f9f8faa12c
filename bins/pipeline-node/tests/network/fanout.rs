//! One tree to four nodes, each in a network of its own: what leaves the source is counted on its wire.

use std::fs;

use crate::namespace::{Far, alone, received};
use crate::node::{Node, stdout};

const LEN: usize = 24 << 20;

/// By `chain` and by `tree` the source sends the tree once, not four times: at most 1.1 times its bytes leave it, whatever
/// frames, acknowledgements and messages add; by `star` four times. All four nodes have every byte.
#[test]
fn the_source_sends_once() {
    alone("fanout::the_source_sends_once", || {
        let dir = tempfile::tempdir().unwrap();
        let here = dir.path().join("tree");
        fs::create_dir_all(here.join("sub")).unwrap();
        let bytes: Vec<u8> =
            (0..LEN as u64).map(|i| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 23) as u8).collect();
        fs::write(here.join("large"), &bytes[..LEN / 2]).unwrap();
        for i in 0..12 {
            fs::write(here.join(format!("sub/{i}")), &bytes[LEN / 2 + i * (LEN / 24)..][..LEN / 24]).unwrap();
        }
        let source = Far::numbered(0);
        let nodes: Vec<(Far, Node, tempfile::TempDir)> = (1..=4).map(node).collect();
        for (shape, times) in [("chain", 1), ("tree", 1), ("star", 4)] {
            let mut words = vec!["copy".to_owned(), "--json".into(), "--fanout".into(), shape.into()];
            words.push(here.to_str().unwrap().to_owned());
            words.extend(nodes.iter().map(|(_, node, _)| format!("{}:files/{shape}/", node.address)));
            let before = received("near0");
            let said = source.run(move || stdout(&words.iter().map(String::as_str).collect::<Vec<_>>()));
            let sent = received("near0") - before;
            eprintln!(
                "{shape}: {sent} bytes left the source, {:.3} of the tree; {said}",
                sent as f64 / LEN as f64
            );
            let least = (LEN * times) as u64;
            assert!(sent >= least && sent <= least + least / 10, "{shape}: {sent} of {LEN} bytes");
            for (_, _, store) in &nodes {
                let there = store.path().join(shape).join("tree");
                assert_eq!(fs::read(there.join("large")).unwrap(), bytes[..LEN / 2]);
                let parts = (0..12).map(|i| fs::read(there.join(format!("sub/{i}"))).unwrap());
                assert_eq!(parts.collect::<Vec<_>>().concat(), bytes[LEN / 2..]);
            }
        }
    });
}

/// A node in network `n` that serves a folder, and pulls from whom it is told to.
fn node(n: u8) -> (Far, Node, tempfile::TempDir) {
    let (far, store) = (Far::numbered(n), tempfile::tempdir().unwrap());
    let path = store.path().to_path_buf();
    let listen = format!("node.listen='10.7.{n}.2:7001'");
    let node = far.run(move || Node::serving_with_set(&path, &[&listen, "segments.files.pull='any'"]));
    (far, node, store)
}
