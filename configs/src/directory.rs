//! `[directory]`: where peers and their segments are found when they are not listed in `[peers]`.

use crate::address;
use crate::body::{self, Body, Form};
use crate::codes;
use crate::config::DirectoryConfig;
use crate::finding::Finding;
use crate::schema::{Change, Key, Kind, Later};
use crate::tree::Entry;
use crate::value::Scope;

const fn key(name: &'static str, kind: Kind, default: Option<&'static str>, doc: &'static str) -> Key {
    Key { name, kind, default, required: false, doc, change: Change::Restart, ..Key::PLAIN }
}

/// Words of a scheme that a directory's endpoints may be written with, by type; the first one is what help writes.
const SCHEMES: &[(&str, &[&str])] =
    &[("http", &["http"]), ("etcd", &["http", "etcd"]), ("redis", &["redis"])];

/// Most endpoints of one directory, and most bytes of its prefix.
const ENDPOINTS_MAX: usize = 16;
const PREFIX_MAX: usize = 128;

/// Keys of `[directory]`.
pub const KEYS: &[Key] = &[
    key(
        "type",
        Kind::Word(&["p2p", "http", "etcd", "redis"]),
        Some("p2p"),
        "What keeps it: `p2p` (each node tells its own, as without the table), `http`, `etcd`, `redis`.",
    ),
    key(
        "endpoints",
        Kind::Texts,
        None,
        "Where it is, in the order they are tried, such as \"http://10.0.0.1:2379\".",
    ),
    key("prefix", Kind::Text, Some("pipeline-node/"), "What every key of ours in it starts with."),
    key(
        "ttl",
        Kind::Time { min_ns: 1_000_000_000, max_ns: 86_400_000_000_000 },
        Some("30s"),
        "How long an entry lives after its node was last heard of; it is put again after each third of that.",
    ),
    key("user", Kind::Text, None, "Name to log in with: etcd and redis."),
    key(
        "password_file",
        Kind::Path,
        None,
        "File with the password, one line; a password itself is never in a TOML file.",
    ),
    Key {
        later: Some(Later::refused("TLS to directories")),
        ..key(
            "ca",
            Kind::Path,
            None,
            "File with the certificates that its TLS certificate must descend from.",
        )
    },
];

/// Reads it; `None` where there is none to ask.
pub fn read(entry: Option<&Entry>, scope: &mut Scope<'_>) -> Option<DirectoryConfig> {
    let entry = entry?;
    let body = body::read_node(&entry.node, entry.key_span, &Form::new("[directory]", KEYS), scope)?;
    let kind = body.values.text("type")?.to_owned();
    let Some((_, schemes)) = SCHEMES.iter().find(|(word, _)| *word == kind) else {
        alone(&body, scope);
        // Nodes tell each other: as without the table.
        return None;
    };
    let endpoints = body.values.texts("endpoints").to_vec();
    // Those that could not be read have been told of.
    let unread = body.spans.contains_key("endpoints") && !body.values.0.contains_key("endpoints");
    if endpoints.is_empty() && !unread {
        let at = body.span("endpoints", entry.key_span);
        let finding =
            Finding::error(codes::KEY_MISSING, at, format!("a directory of type {kind} needs `endpoints`"));
        scope.report.push(finding.help(format!("add endpoints = [\"{}://10.0.0.1:2379\"]", schemes[0])));
    }
    if endpoints.len() > ENDPOINTS_MAX {
        let message = format!("a directory has at most {ENDPOINTS_MAX} endpoints, not {}", endpoints.len());
        let finding = Finding::error(codes::RANGE, body.span("endpoints", entry.key_span), message);
        scope.report.push(finding.help("name those that are near; each is tried in turn"));
    }
    for text in &endpoints {
        if let Err((message, help)) = endpoint(&kind, schemes, text) {
            let message = format!("endpoint \"{text}\" of [directory]: {message}");
            let at = body.span("endpoints", entry.key_span);
            scope.report.push(Finding::error(codes::ADDRESS, at, message).help(help));
        }
    }
    log_in(&kind, &body, scope);
    let prefix = body.values.text("prefix").unwrap_or_default().to_owned();
    if prefix.len() > PREFIX_MAX || !prefix.bytes().all(|b| b.is_ascii_graphic()) {
        let message = format!("`prefix` has 0 to {PREFIX_MAX} printable characters without spaces");
        let finding = Finding::error(codes::RANGE, body.span("prefix", entry.key_span), message);
        scope.report.push(finding.help("such as \"pipeline-node/\""));
    }
    Some(DirectoryConfig {
        kind,
        endpoints,
        prefix,
        ttl: body.values.time("ttl")?,
        user: body.values.text("user").map(str::to_owned),
        password_file: body.values.text("password_file").map(Into::into),
        publishes: true,
    })
}

/// Without a server nothing that is about one makes sense.
fn alone(body: &Body, scope: &mut Scope<'_>) {
    for key in ["endpoints", "user", "password_file", "ca"] {
        if let Some(at) = body.spans.get(key) {
            let message = format!(
                "`{key}` and type = \"p2p\" exclude each other: nodes tell each other, there is no server"
            );
            let finding = Finding::error(codes::EXCLUSIVE, *at, message);
            scope.report.push(finding.help("take one of the two out"));
        }
    }
}

/// Who logs in where there is no log-in, or with half of one.
fn log_in(kind: &str, body: &Body, scope: &mut Scope<'_>) {
    let [user, password] = ["user", "password_file"].map(|key| body.spans.get(key).copied());
    let (code, at, message, help) = match (kind, user, password) {
        ("http", Some(at), _) | ("http", None, Some(at)) => (
            codes::EXCLUSIVE,
            at,
            "a directory of type http has no log-in",
            "take `user` and `password_file` out, and let only whom you trust reach it",
        ),
        ("etcd" | "redis", Some(at), None) => {
            (codes::KEY_MISSING, at, "`user` without a `password_file`", "add password_file = \"…\"")
        }
        ("etcd", None, Some(at)) => {
            (codes::KEY_MISSING, at, "etcd wants a `user` with its `password_file`", "add user = \"…\"")
        }
        _ => return,
    };
    scope.report.push(Finding::error(code, at, message).help(help));
}

/// Judges one endpoint; what is wrong with it, and what to write.
fn endpoint(kind: &str, schemes: &[&str], text: &str) -> Result<(), (String, String)> {
    let example = format!("write \"{}://10.0.0.1:2379\" or \"{0}://[2001:db8::5]:2379\"", schemes[0]);
    let rest = match text.split_once("://") {
        None => text,
        Some(("https" | "rediss" | "etcds", _)) => {
            let help = format!("write {}:// for now", schemes[0]);
            return Err(("TLS to directories comes with a later release".to_owned(), help));
        }
        Some((scheme, rest)) if schemes.contains(&scheme) => rest,
        Some((scheme, _)) => {
            return Err((format!("{scheme}:// is none of a directory of type {kind}"), example));
        }
    };
    let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    if authority.contains('@') {
        let help = "use `user` and `password_file`";
        return Err(("a user and a password are no part of an address".to_owned(), help.to_owned()));
    }
    match address::parse(authority) {
        Ok(found) if found.host.contains(':') && !authority.starts_with('[') => {
            let help = format!("write \"{}://[{authority}]:PORT\"", schemes[0]);
            return Err((
                "an IPv6 address stands in brackets here: its port could be a part of it".to_owned(),
                help,
            ));
        }
        Ok(found) if found.port == 0 => return Err(("port 0 cannot be dialled".to_owned(), example)),
        Ok(_) => {}
        Err(error) => return Err((error.message, format!("{}; {example}", error.help))),
    }
    let fits = match kind {
        "http" => path.bytes().all(|b| b.is_ascii_graphic()) && !path.contains(['?', '#']),
        "redis" => path.len() <= 1 || path[1..].parse::<u32>().is_ok(),
        _ => path.len() <= 1,
    };
    let wrong = format!("\"{path}\" cannot follow the address of a directory of type {kind}");
    if fits { Ok(()) } else { Err((wrong, example)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Field case B22: endpoints with IPv6 literals, names, schemes and paths are taken, and what cannot be meant is refused
    /// with what to write.
    #[test]
    fn endpoints() {
        let judge = |kind: &str, text: &str| {
            let (_, schemes) = SCHEMES.iter().find(|(word, _)| *word == kind).unwrap();
            endpoint(kind, schemes, text).map_err(|(message, help)| {
                assert!(!help.is_empty(), "{text}");
                message
            })
        };
        for (kind, text) in [
            ("http", "http://10.0.0.1:8080/metadata"),
            ("http", "http://[::1]:8080"),
            ("etcd", "[2001:db8::5]:2379"),
            ("etcd", "etcd://[2001:db8::5]"),
            ("etcd", "etcd://db.example"),
            ("redis", "redis://[fe80::1%eth0]:6379/2"),
        ] {
            assert_eq!(judge(kind, text), Ok(()), "{text}");
        }
        for (kind, text, says) in [
            ("http", "https://a:1", "later release"),
            ("etcd", "redis://a:1", "none of a directory"),
            ("redis", "redis://u:p@a:1", "no part of an address"),
            ("etcd", "http://a:0", "port 0"),
            ("etcd", "http://a:2379/x", "cannot follow"),
            ("redis", "redis://a/x", "cannot follow"),
            ("http", "http://[::1", "bracket"),
            ("http", "http://::1:99999", "neither host:port nor an IPv6 address"),
            ("http", "", "empty"),
            ("http", "http://2001:db8::5/metadata", "in brackets"),
            ("etcd", "::1:2379", "in brackets"),
        ] {
            let message = judge(kind, text).unwrap_err();
            assert!(message.contains(says), "{text}: {message}");
        }
    }
}
