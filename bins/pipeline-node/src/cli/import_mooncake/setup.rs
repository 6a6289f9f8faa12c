//! What every set-up says: who this node is, where nodes find each other, over what, with which devices and memory; as lines
//! of the file. What nobody said gets a value that works, and a comment that says so.

use pipeline_stages::catalog::catalog;

use super::fate::{Basic, Over, TABLE, TRANSPORT};
use super::judged::{Judged, Kind, Line, is_on};
use super::names::{self, Devices, Own};
use super::said::{self, Said};

/// The type of transport for `rdma`.
const RDMA: &str = "mooncake_rdma";

/// What a node may call itself.
const NO_NAME: &str =
    "it is no `host` or `host:port`; write such as node-1, 10.0.0.1:12345 or [2001:db8::5]:12345";
/// What others may be told.
const NO_HOST: &str = "it is no host name and no address";

/// The port of a native listener; Mooncake's peers come to another one.
const NATIVE: &str = "for nodes of our own kind; Mooncake's peers come to `listen` of the transport";

/// The lines, tables in the order in which a reader wants them, and over what.
pub(super) fn lines(judged: &mut Judged) -> (Vec<Line>, Over) {
    let over = over(judged);
    let mut lines = Vec::new();
    let own = own(judged);
    node(judged, own.as_ref(), &mut lines);
    transport(judged, own.as_ref(), over, &mut lines);
    devices(judged, over, &mut lines);
    let why = "of our own nodes first what is quicker; Mooncake's have the other one only";
    lines.push(line("stages.route", "prefer", format!("[\"tcp\", {}]", quoted(TRANSPORT)), why));
    memory(judged, &mut lines);
    (lines, over)
}

fn line(table: &str, key: &str, value: String, why: &str) -> Line {
    Line { table: table.to_owned(), key: key.to_owned(), value, why: why.to_owned(), said: None }
}

/// A line that somebody said.
fn from(table: &str, key: &str, value: String, said: &Said) -> Line {
    Line { said: Some(said.clone()), ..line(table, key, value, &said.from) }
}

/// Text as TOML; a plain `$` would begin what is put in from the environment.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '$' => quoted.push_str("$$"),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

fn list(names: &[String]) -> String {
    format!("[{}]", names.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(", "))
}

/// What is forced beats what is said, as in Mooncake; what nobody says is TCP.
fn over(judged: &mut Judged) -> Over {
    for basic in [Basic::ForceRdma, Basic::ForceTcp] {
        let forced = judged.basics.remove(&basic).filter(|said| is_on(&said.value));
        let Some(said) = forced else { continue };
        // What it means is the value that `protocol` would have.
        let value = if basic == Basic::ForceTcp { "tcp" } else { "rdma" };
        let before = judged.basics.insert(Basic::Protocol, Said { value: value.to_owned(), ..said.clone() });
        if let Some(before) = before {
            judged.leave(before, Kind::Overridden, &format!("{} beats it", said.from));
        }
    }
    let spoken = |kind: &str| catalog().transports.iter().any(|t| t.name == kind && t.later.is_none());
    match judged.basics.get(&Basic::Protocol).map(|said| said.value.as_str()) {
        Some("rdma") if spoken(RDMA) => Over::Rdma,
        Some("tcp") | None => Over::Tcp,
        Some(_) => {
            if let Some(said) = judged.basics.remove(&Basic::Protocol) {
                let all = if spoken(RDMA) { "tcp and rdma" } else { "tcp alone" };
                let why = format!("of Mooncake's protocols {all} can be spoken; this file says tcp");
                judged.leave(said, Kind::Lacks, &why);
            }
            Over::Tcp
        }
    }
}

/// The node's own name, as far as it can be read.
fn own(judged: &mut Judged) -> Option<Own> {
    let said = judged.basics.get(&Basic::Name).cloned()?;
    let own = Own::parse(&said.value);
    if own.is_none() {
        judged.basics.remove(&Basic::Name);
        judged.leave(said, Kind::Unfit, NO_NAME);
    }
    own
}

fn node(judged: &Judged, own: Option<&Own>, lines: &mut Vec<Line>) {
    match (own, judged.basics.get(&Basic::Name)) {
        (Some(own), Some(said)) => lines.push(from("node", "name", quoted(&own.node()), said)),
        _ => lines.push(line("node", "name", quoted("mooncake-node"), "nobody said one")),
    }
    lines.push(line("node", "listen", quoted("127.0.0.1:7001"), NATIVE));
}

fn transport(judged: &mut Judged, own: Option<&Own>, over: Over, lines: &mut Vec<Line>) {
    let kind = if over == Over::Rdma { RDMA } else { "mooncake_tcp" };
    lines.push(match judged.basics.get(&Basic::Protocol) {
        Some(said) => from(TABLE, "type", quoted(kind), said),
        None => line(TABLE, "type", quoted(kind), "nobody said a protocol"),
    });
    let central = metadata(judged, lines);
    let port = |judged: &mut Judged| match (own.and_then(|own| own.port), judged.basics.remove(&Basic::Port))
    {
        (Some(port), said) => {
            if let Some(said) = said {
                judged.leave(said, Kind::Overridden, "the name of this node has a port");
            }
            port
        }
        (None, Some(said)) => match said.value.parse() {
            Ok(port) => port,
            Err(_) => {
                judged.leave(said, Kind::Unfit, "it is no port");
                0
            }
        },
        (None, None) => 0,
    };
    let port = port(judged);
    let (mut host, mut told) = own.map_or_else(|| ("127.0.0.1".to_owned(), None), Own::places);
    match bound(judged) {
        Some(said) if central => {
            host.clone_from(&said.value);
            lines.push(listen(judged, &host, port));
            lines.push(from(TABLE, "advertise", quoted(&said.value), &said));
            told = None;
        }
        Some(said) => {
            judged.leave(
                said,
                Kind::Needless,
                "with P2PHANDSHAKE the host of a node's name is what others are told",
            );
            lines.push(listen(judged, &host, port));
        }
        None => lines.push(listen(judged, &host, port)),
    }
    if let Some(told) = told {
        lines.push(line(
            TABLE,
            "advertise",
            quoted(&told),
            "what others are told: `listen` takes all addresses",
        ));
    }
    if central {
        let name = judged.basics.get(&Basic::Name);
        lines.push(match name {
            Some(said) => from(TABLE, "server_name", quoted(&said.value), said),
            None => line(
                TABLE,
                "server_name",
                quoted("mooncake-node"),
                "nobody said one; no two nodes may have the same",
            ),
        });
    }
    cluster(judged, central, lines);
}

/// The host that others are told, if it is one.
fn bound(judged: &mut Judged) -> Option<Said> {
    let said = judged.basics.remove(&Basic::Advertise)?;
    if names::is_host(&said.value) {
        return Some(said);
    }
    judged.leave(said, Kind::Unfit, NO_HOST);
    None
}

fn listen(judged: &Judged, host: &str, port: u16) -> Line {
    let value = quoted(&names::address(host, port));
    let dynamic = "; Mooncake takes any port and tells it: here 0 does";
    match judged.basics.get(&Basic::Name) {
        Some(said) if port == 0 => {
            Line { why: format!("{}{dynamic}", said.from), ..from(TABLE, "listen", value, said) }
        }
        Some(said) => Line {
            why: format!("{}; it is the port that is listened at", said.from),
            ..from(TABLE, "listen", value, said)
        },
        None => line(TABLE, "listen", value, "nobody said a name: for this machine only"),
    }
}

/// Whether there is a server for metadata.
fn metadata(judged: &mut Judged, lines: &mut Vec<Line>) -> bool {
    let kind = judged.basics.remove(&Basic::MetadataKind);
    let Some(said) = judged.basics.get(&Basic::Metadata).cloned() else {
        if let Some(kind) = kind {
            judged.leave(kind, Kind::Needless, "no metadata server was said");
        }
        lines.push(line(TABLE, "metadata", quoted("P2PHANDSHAKE"), "nobody said a metadata server"));
        return false;
    };
    match names::metadata(&said.value, kind.as_ref().map(|kind| kind.value.as_str())) {
        Ok(None) => {
            lines.push(from(TABLE, "metadata", quoted("P2PHANDSHAKE"), &said));
            false
        }
        Ok(Some(server)) => {
            let server = of_redis(judged, server);
            lines.push(from(TABLE, "metadata", quoted(&server), &said));
            true
        }
        Err(why) => {
            judged.basics.remove(&Basic::Metadata);
            judged.leave(said, Kind::Lacks, &why);
            let why = "in place of a server that cannot be had: names of peers are host:port then";
            lines.push(line(TABLE, "metadata", quoted("P2PHANDSHAKE"), why));
            false
        }
    }
}

/// With the number of redis' database. A login has no place in it: passwords never stand in a file.
fn of_redis(judged: &mut Judged, server: String) -> String {
    let is_redis = server.starts_with("redis://");
    for basic in [Basic::RedisUser, Basic::RedisPassword] {
        if let Some(said) = judged.basics.remove(&basic) {
            match is_redis {
                true => judged.leave(
                    said,
                    Kind::Lacks,
                    "a redis that wants a login cannot be had for Mooncake's records yet",
                ),
                false => judged.leave(said, Kind::Needless, "the metadata server is no redis"),
            }
        }
    }
    match judged.basics.remove(&Basic::RedisDatabase) {
        Some(said) if is_redis => format!("{server}/{}", said.value),
        Some(said) => {
            judged.leave(said, Kind::Needless, "the metadata server is no redis");
            server
        }
        None => server,
    }
}

fn cluster(judged: &mut Judged, central: bool, lines: &mut Vec<Line>) {
    match judged.basics.remove(&Basic::Cluster) {
        Some(said) if central => lines.push(from(TABLE, "cluster", quoted(&said.value), &said)),
        Some(said) => {
            judged.leave(said, Kind::Needless, "there is no directory with keys of several clusters")
        }
        None => {}
    }
}

/// NICs, and which of them are near to what.
fn devices(judged: &mut Judged, over: Over, lines: &mut Vec<Line>) {
    let said = judged.basics.remove(&Basic::Devices);
    let filter = judged.basics.remove(&Basic::Filter);
    let matrix = judged.basics.remove(&Basic::Matrix);
    if over == Over::Tcp {
        let why = "over TCP the system's routing chooses; `nics` of the transport takes names of network interfaces";
        for said in [said, filter, matrix].into_iter().flatten() {
            judged.leave(said, Kind::Elsewhere, why);
        }
        return;
    }
    let named = said.as_ref().and_then(|said| Devices::parse(&said.value));
    if let (Some(said), None) = (&said, &named) {
        judged.leave(
            said.clone(),
            Kind::Lacks,
            "a file names its NICs: `nics` of the transport, as `ibv_devices` lists them",
        );
    }
    let of_matrix = matrix.as_ref().and_then(|said| matrix_nics(judged, said));
    let (nics, whence) = match (&named, &filter, &of_matrix) {
        (Some(named), _, _) => (named.nics.clone(), said.as_ref()),
        (None, Some(filter), _) => (names::listed(&filter.value), Some(filter)),
        (None, None, nics) => (nics.clone().unwrap_or_default(), matrix.as_ref()),
    };
    if let (Some(filter), Some(_)) = (&filter, &named) {
        judged.leave(filter.clone(), Kind::Overridden, "devices are named");
    }
    if let (Some(whence), false) = (whence, nics.is_empty()) {
        lines.push(from(TABLE, "nics", list(&nics), whence));
    }
    let of_gpus = named.map(|named| named.of_gpus).unwrap_or_default();
    if let (Some(said), false) = (&said, of_gpus.is_empty()) {
        let each = of_gpus.iter().map(|(gpu, nics)| format!("\"cuda:{gpu}\" = {}", list(nics)));
        let value = format!("{{ {} }}", each.collect::<Vec<_>>().join(", "));
        lines.push(from("topology", "gpu_nics", value, said));
    }
    if let (Some(matrix), Some(_)) = (&matrix, of_matrix) {
        lines.push(from("topology", "matrix", quoted(&matrix.value), matrix));
    }
}

/// The devices of the matrix in a file, which must be there: the file of this node will name it.
fn matrix_nics(judged: &mut Judged, said: &Said) -> Option<Vec<String>> {
    let read = said::read(said.value.as_ref()).map_err(|e| e.to_string());
    let nics = read
        .and_then(|(text, _)| names::of_matrix(&text).ok_or_else(|| "it is no priority matrix".to_owned()));
    nics.map_err(|why| judged.leave(said.clone(), Kind::Unfit, &why)).ok()
}

fn memory(judged: &mut Judged, lines: &mut Vec<Line>) {
    let Some(said) = judged.basics.remove(&Basic::Memory) else { return };
    match names::bytes(&said.value).filter(|bytes| *bytes > 0) {
        Some(bytes) => {
            let table = "segments.kv";
            lines.push(line(
                table,
                "kind",
                quoted("dram"),
                "memory that peers may read and write, Mooncake's too",
            ));
            lines.push(from(table, "size", bytes.to_string(), &said));
            lines.push(line(
                table,
                "access",
                quoted("read_write"),
                "here it is kept to; Mooncake's TCP lets anybody do both",
            ));
        }
        None => judged.leave(said, Kind::Unfit, "it is no number of bytes above 0"),
    }
}
