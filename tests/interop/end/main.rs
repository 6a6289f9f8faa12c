//! Our end of the interop tests: one node with one region, told by JSON lines on stdin what to do, as the wheel's end is
//! (`ends/mooncake_end.py`): `interop_end FILE BYTES`. Ends with its stdin.
//! Deliberately the library as an application uses it: nothing here knows a transport.

mod image;
mod motion;
mod node;

use std::io::{BufRead, Write};

use serde_json::{Value, json};

use crate::image::Shape;
use crate::motion::Motion;
use crate::node::Node;

/// What a command came to: what is told, or why not.
type Answer = Result<Value, String>;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (Some(file), Some(bytes)) = (arguments.next(), arguments.next().and_then(|b| b.parse().ok())) else {
        eprintln!("usage: interop_end FILE BYTES");
        std::process::exit(64);
    };
    let node = match Node::start(&file, bytes) {
        Ok(node) => node,
        Err(why) => {
            eprintln!("{why}");
            std::process::exit(71);
        }
    };
    say(&node.ready());
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        say(&match carry_out(&node, &line) {
            Ok(told) => json!({ "ok": told }),
            Err(why) => json!({ "error": why }),
        });
    }
}

fn say(value: &Value) {
    let mut out = std::io::stdout().lock();
    // Whoever reads may be gone: then stdin ends as well.
    let _ = writeln!(out, "{value}").and_then(|()| out.flush());
}

fn carry_out(node: &Node, line: &str) -> Answer {
    let command: Value = serde_json::from_str(line).map_err(|e| format!("no JSON: {e}"))?;
    match text(&command, "do")? {
        "fill" => image::fill(&node.region, number(&command, "seed")?, number(&command, "length")?),
        "image" => image::image(&node.region, &Shape::of(&command)?),
        "open" => node.open(text(&command, "peer")?),
        "move" => motion::carry_out(node, &Motion::of(&command)?),
        "run" => motion::again(node, &Motion::of(&command)?, number(&command, "run_ms")?),
        "notices" => node.notices(number(&command, "count")?, number(&command, "wait_ms")?),
        "usage" => Ok(json!({ "idle": node.engine.usage().is_idle() })),
        other => Err(format!("no such command: {other}")),
    }
}

/// A key that must be text.
fn text<'a>(command: &'a Value, key: &str) -> Result<&'a str, String> {
    command[key].as_str().ok_or_else(|| format!("`{key}` must be text"))
}

/// A key that must be a number.
fn number(command: &Value, key: &str) -> Result<u64, String> {
    command[key].as_u64().ok_or_else(|| format!("`{key}` must be a number"))
}
