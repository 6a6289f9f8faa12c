//! What is tried with any bytes as a file: load, and whatever a user can do with what was loaded. Shared by libFuzzer
//! and by the test that replays the corpus.

use pipeline_configs::{Catalog, Options, load_str, show};
use pipeline_graph::{Plan, draw};

/// Loads it with a catalogue; lines `# set …` at its top are `--set` arguments.
///
/// # Panics
/// When something is wrong with the product: that is what it is for.
pub fn run(data: &[u8], catalog: &Catalog) {
    // Presets by path would read whatever lies there: a terminal, for instance.
    let Some(text) = std::str::from_utf8(data).ok().filter(|text| !text.contains('/')) else { return };
    let set = text.lines().map_while(|line| line.strip_prefix("# set ")).map(str::to_owned).collect();
    let options = Options { set, cpus: vec![0, 1], budget: 2, ..Options::default() };
    match load_str("fuzz.toml", text, catalog, &options) {
        Ok(loaded) => {
            assert_eq!(loaded.warnings.errors(), 0);
            assert_eq!(loaded.runnable().is_err(), !loaded.config.later.is_empty());
            let blueprint = &loaded.config.blueprint;
            let workers: usize = blueprint.pools.iter().map(|pool| pool.workers()).sum();
            // Large numbers of threads are allowed, and slow to draw.
            if workers <= 256 {
                let shown =
                    [Plan::new(blueprint).text("slices"), draw::dot(blueprint), draw::mermaid(blueprint)];
                assert!(shown.iter().all(|text| !text.is_empty()));
            }
            assert!(!show::text(&show::show(&loaded, catalog)).is_empty());
        }
        Err(findings) => {
            assert!(findings.errors() > 0 && !findings.text().is_empty());
            assert!(findings.json_lines().lines().count() >= findings.list.len());
        }
    }
}
