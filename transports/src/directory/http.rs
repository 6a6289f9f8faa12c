//! A directory behind HTTP, in Mooncake's words: `GET|PUT|DELETE URI?key=…`, where only 200 is success and 404 means that
//! there is no such key. `ttl_ms=` and `prefix=` are ours, and servers that do not know them keep values for ever and list
//! nothing. Endpoints are tried in their order at each call, because they need not know of each other.
//! Deliberately plain HTTP/1.1 without redirects, cookies, compression and TLS.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{CONTENT_TYPE, HOST, USER_AGENT};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::net::TcpStream;
use tokio::task::AbortHandle;

use super::endpoint::Endpoint;
use super::listing::{Listed, Listing};
use super::turns::{Failure, Turns};
use super::{Pairs, Store, VALUE_MAX};
use crate::clock::Nanos;
use crate::error::Error;
use crate::transport::BoxFuture;

/// Idle connections kept for one endpoint.
const IDLE: usize = 4;

/// What stands for itself in a query (RFC 3986, 2.3): as curl does it.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// See the module.
pub(super) struct HttpStore {
    place: String,
    endpoints: Vec<Endpoint>,
    /// Idle connections, by endpoint.
    idle: Vec<Mutex<Vec<Connection>>>,
}

/// A connection that is ready for a request, and the task that drives it.
struct Connection {
    sender: SendRequest<Full<Bytes>>,
    driver: AbortHandle,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// What is asked: the same of each endpoint.
struct Question {
    method: Method,
    query: String,
    body: Bytes,
}

struct Answer {
    status: StatusCode,
    body: Bytes,
}

impl Answer {
    /// What was answered instead of what was expected, with the server's own words.
    fn says(&self) -> String {
        let text = String::from_utf8_lossy(&self.body[..self.body.len().min(200)]);
        let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        match text.trim() {
            "" => format!("it answers {}", self.status),
            text => format!("it answers {}: {text}", self.status),
        }
    }
}

impl HttpStore {
    pub(super) fn new(place: String, endpoints: Vec<Endpoint>) -> Self {
        let idle = endpoints.iter().map(|_| Mutex::default()).collect();
        Self { place, endpoints, idle }
    }

    async fn ask(&self, method: Method, query: String, body: Bytes, by: Nanos) -> Result<Answer, Error> {
        let question = Question { method, query, body };
        let mut turns = Turns::new(by, self.endpoints.len());
        for (at, endpoint) in self.endpoints.iter().enumerate() {
            let attempt = async {
                let answer = self.ask_one(at, &question).await.map_err(Failure::Here)?;
                match answer.status.is_server_error() {
                    true => Err(Failure::Here(answer.says())),
                    false => Ok(answer),
                }
            };
            if let Some(answer) = turns.take(endpoint, attempt).await? {
                return Ok(answer);
            }
        }
        Err(turns.in_vain(&self.place))
    }

    /// On an idle connection if there is one. It may have been closed at the other end meanwhile: then on a fresh one.
    async fn ask_one(&self, at: usize, question: &Question) -> Result<Answer, String> {
        let endpoint = &self.endpoints[at];
        let idle = self.idle(at).pop();
        if let Some(connection) = idle {
            if let Ok(answer) = self.exchange(at, connection, question).await {
                return Ok(answer);
            }
            self.idle(at).clear();
        }
        let address = (endpoint.address.host.as_str(), endpoint.address.port);
        let stream = TcpStream::connect(address).await.map_err(|e| e.to_string())?;
        stream.set_nodelay(true).map_err(|e| e.to_string())?;
        let (sender, driven) = handshake(TokioIo::new(stream)).await.map_err(|e| cause(&e))?;
        let driver = tokio::spawn(async move { drop(driven.await) }).abort_handle();
        self.exchange(at, Connection { sender, driver }, question).await
    }

    async fn exchange(
        &self,
        at: usize,
        mut connection: Connection,
        question: &Question,
    ) -> Result<Answer, String> {
        let endpoint = &self.endpoints[at];
        let request = Request::builder()
            .method(question.method.clone())
            .uri(format!("{}?{}", endpoint.path, question.query))
            .header(HOST, endpoint.address.to_string())
            .header(USER_AGENT, concat!("pipeline-node/", env!("CARGO_PKG_VERSION")))
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(question.body.clone()))
            .map_err(|e| e.to_string())?;
        connection.sender.ready().await.map_err(|e| cause(&e))?;
        let response = connection.sender.send_request(request).await.map_err(|e| cause(&e))?;
        let (head, body) = response.into_parts();
        // Grows with what comes, whatever was announced.
        let body = Limited::new(body, VALUE_MAX).collect().await;
        let body = body.map_err(|e| format!("its answer cannot be read: {e} (at most {VALUE_MAX} bytes)"))?;
        let mut idle = self.idle(at);
        if idle.len() < IDLE && !connection.sender.is_closed() {
            idle.push(connection);
        }
        Ok(Answer { status: head.status, body: body.to_bytes() })
    }

    fn idle(&self, at: usize) -> MutexGuard<'_, Vec<Connection>> {
        self.idle[at].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn otherwise(&self, answer: &Answer) -> Error {
        Error::Directory { place: self.place.clone(), reason: answer.says() }
    }
}

/// What hyper says, down to the system's reason.
fn cause(error: &hyper::Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        text = format!("{text}: {inner}");
        source = inner.source();
    }
    text
}

fn pair(name: &str, value: &str) -> String {
    format!("{name}={}", utf8_percent_encode(value, ESCAPED))
}

impl Store for HttpStore {
    fn place(&self) -> String {
        self.place.clone()
    }

    fn get<'a>(&'a self, key: &'a str, by: Nanos) -> BoxFuture<'a, Result<Option<Vec<u8>>, Error>> {
        Box::pin(async move {
            let answer = self.ask(Method::GET, pair("key", key), Bytes::new(), by).await?;
            match answer.status {
                StatusCode::OK => Ok(Some(answer.body.into())),
                StatusCode::NOT_FOUND => Ok(None),
                _ => Err(self.otherwise(&answer)),
            }
        })
    }

    fn put<'a>(
        &'a self,
        key: &'a str,
        value: &'a [u8],
        life: Option<Duration>,
        by: Nanos,
    ) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            super::check_length(&self.place, key, value)?;
            let mut query = pair("key", key);
            if let Some(life) = life {
                // Never shorter than asked for, and never 0.
                query = format!("{query}&ttl_ms={}", life.as_nanos().div_ceil(1_000_000).max(1));
            }
            let answer = self.ask(Method::PUT, query, Bytes::copy_from_slice(value), by).await?;
            match answer.status {
                StatusCode::OK => Ok(()),
                StatusCode::PAYLOAD_TOO_LARGE => Err(Error::BadArgument(format!(
                    "{} takes no value of {} bytes: {}",
                    self.place,
                    value.len(),
                    answer.says()
                ))),
                _ => Err(self.otherwise(&answer)),
            }
        })
    }

    fn remove<'a>(&'a self, key: &'a str, by: Nanos) -> BoxFuture<'a, Result<bool, Error>> {
        Box::pin(async move {
            let answer = self.ask(Method::DELETE, pair("key", key), Bytes::new(), by).await?;
            match answer.status {
                StatusCode::OK => Ok(true),
                StatusCode::NOT_FOUND => Ok(false),
                _ => Err(self.otherwise(&answer)),
            }
        })
    }

    fn list<'a>(&'a self, prefix: &'a str, most: usize, by: Nanos) -> BoxFuture<'a, Result<Pairs, Error>> {
        Box::pin(async move {
            let (mut listed, mut bytes) = (Pairs::new(), 0);
            while listed.len() < most {
                let mut query = format!("{}&most={}", pair("prefix", prefix), most - listed.len());
                if let Some((last, _)) = listed.last() {
                    query = format!("{query}&{}", pair("after", last));
                }
                let answer = self.ask(Method::GET, query, Bytes::new(), by).await?;
                if answer.status != StatusCode::OK {
                    return Err(self.otherwise(&answer));
                }
                bytes += answer.body.len();
                if bytes > VALUE_MAX {
                    let reason = format!("more than {VALUE_MAX} bytes under `{prefix}`; list less at a time");
                    return Err(Error::BadArgument(reason));
                }
                let page: Listing = serde_json::from_slice(&answer.body).map_err(|e| Error::Directory {
                    place: self.place.clone(),
                    reason: format!("it does not list as `pipeline-node directory` does: {e}"),
                })?;
                let before = listed.last().map(|(key, _)| key.clone()).unwrap_or_default();
                let entries = page.entries.into_iter().map(Listed::into_pair);
                // Only what goes on behind the last one: else it would never end.
                listed.extend(
                    entries
                        .filter(|(key, _)| key.starts_with(prefix) && (*key > before || before.is_empty())),
                );
                if !page.more || listed.last().is_none_or(|(last, _)| *last <= before) {
                    break;
                }
            }
            listed.truncate(most);
            Ok(listed)
        })
    }
}
