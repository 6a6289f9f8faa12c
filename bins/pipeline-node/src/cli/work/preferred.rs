//! The transport that a file's requests take if they can. Deliberately by the file alone: what a peer offers may be another one.

use pipeline_configs::Config;

/// Its place among those of the file: the first that a `protocol_route` prefers, else the first that there is; `None` in a file without any.
pub fn preferred(config: &Config) -> Option<usize> {
    let route = config.stages.iter().find(|stage| stage.kind == "protocol_route");
    let first = route.and_then(|stage| stage.values.texts("prefer").first());
    let named = first.and_then(|name| config.transports.iter().position(|t| t.name == *name));
    named.or((!config.transports.is_empty()).then_some(0))
}
