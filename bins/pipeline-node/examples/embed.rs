//! Two engines in one process: one offers memory, the other writes to it over TCP and reads it back.

use std::time::Duration;

use pipeline_node::{Engine, Options, Request};

const TARGET: &str = r#"
version = 1
use = "tcp"
node = { name = "target" }
segments.kv = { kind = "dram", size = "1MiB", access = "read_write" }
"#;
const CLIENT: &str = "version = 1\nuse = \"tcp\"\nnode = { name = \"client\" }\n";

/// Writes, reads back, compares.
pub fn main() -> Result<(), Box<dyn std::error::Error>> {
    let target = Engine::from_toml(TARGET)?;
    let client = Engine::from_toml(CLIENT)?;

    let text = b"bytes that went there and back";
    let len = text.len() as u64;
    let (sent, received) = (client.allocate(4096)?, client.allocate(4096)?);
    sent.write(0, text)?;

    let peer = client.open(&target.local_address().to_string())?;
    let kv = peer.segment("kv")?;
    for request in [Request::write(&sent, 0, kv.at(512), len), Request::read(&received, 0, kv.at(512), len)] {
        let batch = client
            .submit(&[request], Options { deadline: Some(Duration::from_secs(5)), ..Options::default() })?;
        let summary = batch.wait(Duration::from_secs(10))?;
        assert!(summary.is_done(), "{:?}", batch.results().collect::<Vec<_>>());
    }

    let mut back = vec![0; text.len()];
    received.read(0, &mut back)?;
    assert_eq!(back, text);
    println!("{} bytes went to {} and back", len, peer.name());
    Ok(())
}
