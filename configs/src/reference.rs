//! The page `docs/config.md`: every key with its type, unit, default, range, and what changing it costs. Made from
//! the declarations that the readers use.

use std::fmt::Write as _;

use crate::schema::{Catalog, Change, Key, Kind};
use crate::tables::{self, TableDecl};
use crate::value;

const HEAD: &str = "# The file

Every table and key. Generated from the catalogue (`UPDATE_GOLDENS=1 cargo test -p pipeline-tests --test config_pages`);
editors complete the same from `configs/schema/pipeline-node.schema.json` when a file starts with a `#:schema` line.

- **Change**: `live`: taken at once; `rebuild`: the stage or listener is rebuilt; `restart`: at the next start.
- **Sizes** are `65536`, `\"64KiB\"` (65 536 bytes) or `\"64KB\"` (64 000 bytes), exact to 15 EiB. **Times** are `\"20us\"`, `\"1ms\"`,
  `\"1.5s\"`, `\"1m30s\"`. **Rates** are `\"200Gbit/s\"`. **Shares** are `\"25%\"`. Numbers may also be written as text, so that
  `\"${VAR:-64}\"` can stand for them. The environment and `--set` are read by the same reader.
- **Precedence**: `--set` beats `PIPELINE_NODE__TABLE__KEY` beats the file beats its preset beats the default;
  `pipeline-node show config FILE` tells for each value which of them it was.
- **Later**: what comes with a later release is read and judged like the rest. Where doing without would change what
  the file means, `run` refuses it; where it only costs speed or visibility, `validate` and `run` say so and go on.
- **Renamed** keys are read under their old name, with a warning, for one minor version.
- `validate` answers within 50 ms for a file of 200 stages (a test holds that; 6 ms when measured, in a build for tests).

";

/// The page.
pub fn page(catalog: &Catalog) -> String {
    let mut page = HEAD.to_owned();
    page.push_str("## Top\n\n");
    rows(&mut page, &[tables::VERSION, tables::USE]);
    let mut path = "";
    for decl in tables::all(catalog) {
        if decl.path != path {
            path = decl.path;
            let _ = writeln!(page, "## {}\n", decl.heading());
        }
        table(&mut page, &decl);
    }
    page.push_str(
        "## [peers]\n\nNames for addresses: `NAME = \"host:port\"`, or an array of addresses that are tried in order. The port is 7001 \
         unless said. Change: live.\n\n\
         The next address joins as soon as the one before has failed, and after 200 ms at the latest; the first that completes \
         a handshake is used, for lanes too. So an address that refuses costs nothing, one that swallows everything, or takes \
         the connection and says nothing, costs 200 ms, and each attempt ends after `limits.connect`. What failed or had not \
         answered is logged once. An attempt that this side could not make, for want of a port or a descriptor, is no failure of \
         the peer: what waits for it goes on waiting.\n\n\
         A peer that runs another engine is named `TRANSPORT://NAME`: TRANSPORT is the name of a declared transport that speaks \
         that engine's protocol, NAME what the peer is called there, such as `decode = \"mooncake://10.0.0.2:15123\"`. It has this one \
         name, and no addresses beside it.\n",
    );
    page
}

fn table(page: &mut String, decl: &TableDecl) {
    if let Some((key, word)) = decl.variant {
        let _ = writeln!(page, "### {key} = \"{word}\"\n");
    }
    let _ = writeln!(page, "{}\n", decl.summary);
    if let Some(later) = decl.later {
        let _ = writeln!(
            page,
            "Later: comes with the release that brings {}; `run` refuses it until then.\n",
            later.brings
        );
    }
    if decl.keys.is_empty() {
        page.push_str("No keys of its own.\n\n");
    } else {
        rows(page, &decl.keys);
    }
}

fn rows(page: &mut String, keys: &[Key]) {
    page.push_str("| key | type | default | range | change | |\n|---|---|---|---|---|---|\n");
    for key in keys {
        let default = match key.default {
            Some(text) => format!("`{text}`"),
            None if key.required => String::from("must be given"),
            None => String::from("none"),
        };
        let range = value::range_of(&key.kind)
            .map_or(String::new(), |r| r.trim_start_matches("permitted: ").to_owned());
        let mut doc = key.doc.to_owned();
        if let Some(later) = key.later {
            let what = match later.words {
                [] => String::from("Later"),
                words => format!("Later ({})", words.join(", ")),
            };
            let verdict = if later.refused { "refused by `run` until then" } else { "no effect until then" };
            let _ = write!(doc, " {what}: {}; {verdict}.", later.brings);
        }
        for former in key.formerly {
            let _ = write!(doc, " Until {}.{} `{}`.", former.since.0, former.since.1, former.name);
        }
        let cells = [kind(&key.kind), default, range, change(key.change).to_owned(), doc];
        let cells = cells.map(|cell| cell.replace('|', "\\|"));
        let _ = writeln!(page, "| `{}` | {} |", key.name, cells.join(" | "));
    }
    page.push('\n');
}

fn change(change: Change) -> &'static str {
    match change {
        Change::Live => "live",
        Change::Rebuild => "rebuild",
        Change::Restart => "restart",
    }
}

/// What a key holds, with its unit.
pub fn kind(kind: &Kind) -> String {
    let any = |words: &[&str]| words.iter().map(|w| format!("`{w}`")).collect::<Vec<_>>().join(" or ");
    match kind {
        Kind::Bytes { .. } => String::from("size (bytes)"),
        Kind::Time { .. } => String::from("time"),
        Kind::Count { .. } => String::from("number"),
        Kind::Rate { .. } => String::from("rate (bit/s)"),
        Kind::Percent { .. } => String::from("share (%)"),
        Kind::Flag => String::from("true or false"),
        Kind::Text => String::from("text"),
        Kind::Path => String::from("path"),
        Kind::Address => String::from("address (host:port)"),
        Kind::Addresses => String::from("array of addresses"),
        Kind::Word(words) => any(words),
        Kind::WordOrBytes(words, ..) => format!("{} or size (bytes)", any(words)),
        Kind::Texts => String::from("array of text"),
        Kind::Words(words) => format!("array of {}", any(words)),
        Kind::Transports => String::from("array of names of transports"),
        Kind::BytesPerTransport(words, ..) => {
            format!("{} or size (bytes) or a table of transport to size", any(words))
        }
        Kind::WordOrTexts(words) => format!("{} or a table of name to array of text", any(words)),
    }
}
