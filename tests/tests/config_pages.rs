//! What is made from the catalogue is in step with it: the page of the file and its JSON schema.
//! `UPDATE_GOLDENS=1 cargo test -p pipeline-tests --test config_pages` writes both anew.

use std::path::PathBuf;

use pipeline_configs::{json_schema, reference};
use pipeline_stages::catalog::catalog;

fn in_step(path: &str, text: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    if std::env::var_os("UPDATE_GOLDENS").is_some() {
        std::fs::create_dir_all(path.parent().expect("it is in a folder")).expect("it can be made");
        std::fs::write(&path, text).expect("it can be written");
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(there == text, "{} is not what the catalogue says; run with UPDATE_GOLDENS=1", path.display());
}

/// `docs/config.md` is what the catalogue says.
#[test]
fn page_of_the_file() {
    in_step("docs/config.md", &reference::page(&catalog()));
}

/// `docs/metrics.md` is what the table of metrics says.
#[test]
fn page_of_the_metrics() {
    in_step("docs/metrics.md", &pipeline_node::metrics::page());
}

/// The checked-in JSON schema is what the catalogue says, and describes every type of stage and transport.
#[test]
fn json_schema_of_the_file() {
    let catalog = catalog();
    in_step("configs/schema/pipeline-node.schema.json", &json_schema::text(&catalog));
    let schema = json_schema::schema(&catalog);
    let kinds = catalog.stages.iter().map(|s| ("stages", s.name));
    for (table, kind) in kinds.chain(catalog.transports.iter().map(|t| ("transports", t.name))) {
        let shape = &schema["definitions"][format!("{table}.{kind}")];
        assert_eq!(shape["properties"]["type"]["const"], kind, "{table}.{kind}");
        let reference = serde_json::json!({ "$ref": format!("#/definitions/{table}.{kind}") });
        let choices = &schema["properties"][table]["additionalProperties"]["anyOf"];
        assert!(choices.as_array().is_some_and(|c| c.contains(&reference)), "{table}.{kind}");
    }
}
