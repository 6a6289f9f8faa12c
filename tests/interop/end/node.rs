//! The node, its region, and what is asked of it besides moving bytes.

use std::path::Path;
use std::time::{Duration, Instant};

use pipeline_node::{Access, Engine, Memory, Notices, Region};
use serde_json::{Value, json};

use crate::Answer;

/// A running node.
pub struct Node {
    pub engine: Engine,
    pub region: Region,
    notices: Notices,
}

impl Node {
    /// Starts the node of a file, with one region that peers may read and write, in the segment `kv`.
    pub fn start(file: &str, bytes: u64) -> Result<Self, String> {
        let engine = Engine::from_file(Path::new(file)).map_err(|e| e.to_string())?;
        let notices = engine.notices();
        let memory = Memory::allocate(bytes).map_err(|e| e.to_string())?;
        let region = engine.register(memory, Access::ReadWrite).map_err(|e| e.to_string())?;
        engine.add_segment("kv").map_err(|e| e.to_string())?;
        engine.publish("kv", &region).map_err(|e| e.to_string())?;
        // Every page is there before anything is timed.
        crate::image::fill(&region, 1, bytes)?;
        Ok(Self { engine, region, notices })
    }

    /// What whoever started it must know.
    pub fn ready(&self) -> Value {
        let names: serde_json::Map<String, Value> =
            self.engine.foreign_names().into_iter().map(|(t, name)| (t, name.into())).collect();
        json!({
            "pid": std::process::id(), "names": names, "native": self.engine.local_address().to_string(),
            "address": self.region.ptr() as u64, "length": self.region.len(),
        })
    }

    /// Opens a peer, however it is named.
    pub fn open(&self, peer: &str) -> Answer {
        let begin = Instant::now();
        let opened = self.engine.open(peer).map_err(|e| e.to_string())?;
        let segment = |name: &str| {
            let segment = opened.segment(name).map_err(|e| e.to_string())?;
            Ok::<_, String>(json!({ "name": name, "kind": segment.kind(), "length": segment.len() }))
        };
        let segments = opened.segments().map(segment).collect::<Result<Vec<_>, _>>()?;
        let seconds = begin.elapsed().as_secs_f64();
        Ok(json!({ "name": opened.name(), "segments": segments, "seconds": seconds }))
    }

    /// So many notices that have come, or fewer after some time.
    pub fn notices(&self, count: u64, wait_ms: u64) -> Answer {
        let until = Instant::now() + Duration::from_millis(wait_ms);
        let mut heard = Vec::new();
        while (heard.len() as u64) < count {
            let left = until.saturating_duration_since(Instant::now());
            let Ok(notice) = self.notices.next(left) else { break };
            let body = String::from_utf8_lossy(&notice.body).into_owned();
            heard.push(json!({ "name": &*notice.peer, "msg": body, "failed": notice.failed }));
        }
        Ok(heard.into())
    }
}
