//! One request to the embedded directory, and its answer. Mooncake's words: `GET|PUT|DELETE ANY-PATH?key=…`; ours:
//! `ttl_ms=` with a PUT, `prefix=`, `after=` and `most=` with a GET. Every refusal says in text what to do.

use std::borrow::Cow;
use std::convert::Infallible;
use std::sync::{Mutex, MutexGuard, PoisonError};

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE};
use hyper::{Method, Request, Response, StatusCode};
use percent_encoding::percent_decode_str;
use tokio::time::timeout;

use super::SILENCE;
use super::table::{Full as NoRoom, Table};
use crate::clock::{Nanos, now};
use crate::directory::listing::{Listed, Listing};

/// Longest key, bytes.
const KEY_MAX: usize = 4096;
/// Entries of a list, where nobody says how many, and at most.
const LISTED: usize = 1000;
const LISTED_MAX: usize = 10_000;
/// Bytes of keys and values in one list, about.
const LIST_BYTES: u64 = 16 << 20;
/// Longest life: a year.
const LIFE_MAX_MS: u64 = 366 * 86_400_000;

type Answer = Response<Full<Bytes>>;

/// Locks; a poisoned table is taken over, because each call leaves it whole.
pub(super) fn lock(table: &Mutex<Table>) -> MutexGuard<'_, Table> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The query, taken apart; the first of each name counts.
#[derive(Default)]
struct Query<'a> {
    key: Option<Cow<'a, str>>,
    prefix: Option<Cow<'a, str>>,
    after: Option<Cow<'a, str>>,
    most: Option<Cow<'a, str>>,
    ttl_ms: Option<Cow<'a, str>>,
}

impl<'a> Query<'a> {
    /// Unknown names are passed over: a later release may have more.
    fn read(text: &'a str) -> Result<Self, &'static str> {
        let mut query = Self::default();
        for pair in text.split('&') {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = percent_decode_str(value).decode_utf8().map_err(|_| "the query is not UTF-8")?;
            if value.len() > KEY_MAX {
                return Err("a key has at most 4096 bytes");
            }
            let place = match name {
                "key" => &mut query.key,
                "prefix" => &mut query.prefix,
                "after" => &mut query.after,
                "most" => &mut query.most,
                "ttl_ms" => &mut query.ttl_ms,
                _ => continue,
            };
            place.get_or_insert(value);
        }
        Ok(query)
    }
}

/// Answers one request.
pub(super) async fn answer(table: &Mutex<Table>, request: Request<Incoming>) -> Result<Answer, Infallible> {
    let text = request.uri().query().unwrap_or_default().to_owned();
    let query = match Query::read(&text) {
        Ok(query) => query,
        Err(why) => return Ok(says(StatusCode::BAD_REQUEST, why)),
    };
    let method = request.method().clone();
    Ok(match (&method, query.key.as_deref()) {
        (&Method::GET, None) if query.prefix.is_some() => list(table, &query),
        (&Method::GET, None) if request.uri().path() == "/health" => says(StatusCode::OK, "OK"),
        (_, None | Some("")) => says(
            StatusCode::BAD_REQUEST,
            "say which key: GET, PUT or DELETE /metadata?key=…; or list with ?prefix=…",
        ),
        (&Method::GET, Some(key)) => match lock(table).get(key, now()) {
            Some(value) => json(value),
            None => says(StatusCode::NOT_FOUND, "metadata not found"),
        },
        (&Method::DELETE, Some(key)) => match lock(table).remove(key, now()) {
            true => says(StatusCode::OK, "metadata deleted"),
            false => says(StatusCode::NOT_FOUND, "metadata not found"),
        },
        (&Method::PUT, Some(key)) => put(table, key, query.ttl_ms.as_deref(), request.into_body()).await,
        _ => {
            let mut answer = says(StatusCode::METHOD_NOT_ALLOWED, "only GET, PUT and DELETE");
            answer.headers_mut().insert(ALLOW, hyper::header::HeaderValue::from_static("GET, PUT, DELETE"));
            answer
        }
    })
}

/// Bytes that are being received, in the table's account while this lives.
struct Arriving<'a> {
    table: &'a Mutex<Table>,
    bytes: Vec<u8>,
    reserved: u64,
}

impl Drop for Arriving<'_> {
    fn drop(&mut self) {
        lock(self.table).give_back(self.reserved);
    }
}

async fn put(table: &Mutex<Table>, key: &str, ttl_ms: Option<&str>, mut body: Incoming) -> Answer {
    let life: Option<Nanos> = match ttl_ms.map(|text| (text, text.parse::<u64>())) {
        None => None,
        Some((_, Ok(ms))) if (1..=LIFE_MAX_MS).contains(&ms) => Some(ms * 1_000_000),
        Some((text, _)) => {
            let why = format!("ttl_ms={text}: a life is 1 to {LIFE_MAX_MS} milliseconds");
            return says(StatusCode::BAD_REQUEST, why);
        }
    };
    let most = lock(table).bounds().value;
    let too_long = || {
        says(StatusCode::PAYLOAD_TOO_LARGE, format!("a value has at most {most} bytes; see --value-bytes"))
    };
    // Refused before it is sent, where the client waits for that; else the connection ends with it.
    if body.size_hint().lower() > most as u64 {
        return too_long();
    }
    let mut arriving = Arriving { table, bytes: Vec::new(), reserved: 0 };
    loop {
        let frame = match timeout(SILENCE, body.frame()).await {
            Err(_) => return says(StatusCode::REQUEST_TIMEOUT, "nothing came for a minute"),
            Ok(None) => break,
            Ok(Some(Err(error))) => {
                return says(StatusCode::BAD_REQUEST, format!("the value broke off: {error}"));
            }
            Ok(Some(Ok(frame))) => frame,
        };
        let Ok(data) = frame.into_data() else { continue };
        if arriving.bytes.len() + data.len() > most {
            return too_long();
        }
        if let Err(full) = lock(table).reserve(data.len() as u64, now()) {
            return no_room(full);
        }
        arriving.reserved += data.len() as u64;
        arriving.bytes.extend_from_slice(&data);
    }
    let value = Bytes::from(std::mem::take(&mut arriving.bytes).into_boxed_slice());
    drop(arriving);
    let now = now();
    let taken = lock(table).put(key, value, life.map(|life| now.saturating_add(life)), now);
    match taken {
        Ok(()) => says(StatusCode::OK, "metadata updated"),
        Err(full) => no_room(full),
    }
}

fn list(table: &Mutex<Table>, query: &Query<'_>) -> Answer {
    let most = match query.most.as_deref().map(str::parse::<usize>) {
        None => LISTED,
        Some(Ok(most)) => most.min(LISTED_MAX),
        Some(Err(_)) => return says(StatusCode::BAD_REQUEST, "most= is a number"),
    };
    let prefix = query.prefix.as_deref().unwrap_or_default();
    let (found, more) = lock(table).list(prefix, query.after.as_deref(), most, LIST_BYTES, now());
    let entries =
        found.into_iter().map(|(key, value)| Listed::new(key.to_string(), value.to_vec())).collect();
    match serde_json::to_vec(&Listing { entries, more }) {
        Ok(body) => json(body.into()),
        Err(error) => says(StatusCode::INTERNAL_SERVER_ERROR, error),
    }
}

fn no_room(full: NoRoom) -> Answer {
    let why = match full {
        NoRoom::Keys(most) => format!("full: {most} keys; see --keys"),
        NoRoom::Bytes(most) => format!("full: {most} bytes; see --bytes"),
    };
    says(StatusCode::INSUFFICIENT_STORAGE, why)
}

fn json(body: Bytes) -> Answer {
    with(StatusCode::OK, "application/json", body)
}

fn says(status: StatusCode, why: impl std::fmt::Display) -> Answer {
    with(status, "text/plain; charset=utf-8", format!("{why}\n").into())
}

fn with(status: StatusCode, kind: &'static str, body: Bytes) -> Answer {
    let mut answer = Response::new(Full::new(body));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(kind));
    answer
}
