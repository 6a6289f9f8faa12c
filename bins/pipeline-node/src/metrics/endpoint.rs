//! `[metrics] listen`: HTTP on the control thread. `GET /metrics` answers a fresh observation as Prometheus text, `GET /healthz`
//! whether the node takes work.
//!
//! Deliberately nothing that waits for the data path: cells are read while workers write them. Bounded in connections, in the
//! head of a request, in silence, and in how often an observation is made, whoever asks.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use pipeline_graph::State;
use rustix::net::sockopt::set_tcp_user_timeout;
use rustix::net::{Shutdown, shutdown};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep};

use crate::guests::{Guests, Place};
use crate::observation::Observer;

/// Connections at a time; when one more comes, one that has asked nothing makes room, or the one that did so longest ago.
const CONNECTIONS: usize = 16;
/// Longest silence: before a request, in the middle of its head, and while its answer should be read.
const SILENCE: Duration = Duration::from_secs(10);
/// Most bytes of the head of a request.
const HEAD_MAX: usize = 16 << 10;
/// A scrape so soon after another one gets the same text: clients in a loop cost the control thread no more than this lets them.
const FRESH: Duration = Duration::from_millis(100);
/// The pause while descriptors are short.
const SHORT: Duration = Duration::from_millis(50);

type Answer = Response<Full<Bytes>>;

/// The listener, which no forked child keeps open when this one ends.
struct Listening(TcpListener);

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = shutdown(&self.0, Shutdown::Both);
    }
}

/// Serves until it is dropped; with it end all connections.
pub(crate) async fn serve(listener: TcpListener, observer: Observer) {
    let listener = Listening(listener);
    let page = Arc::new(Page { observer, last: Mutex::new(None) });
    let guests = Guests::new(CONNECTIONS);
    loop {
        match listener.0.accept().await {
            Ok((stream, from)) => guests.admit(|place| connection(stream, from, page.clone(), place)).await,
            Err(error) => {
                tracing::debug!(%error, "a connection for metrics could not be accepted");
                sleep(SHORT).await;
            }
        }
    }
}

async fn connection(stream: TcpStream, from: SocketAddr, page: Arc<Page>, place: Place) {
    // For clients that read no answer, and for hosts that vanished.
    let silence = u32::try_from(SILENCE.as_millis()).unwrap_or(u32::MAX);
    let _ = stream.set_nodelay(true).and_then(|()| Ok(set_tcp_user_timeout(&stream, silence)?));
    let service = service_fn(|request| {
        // What takes time is that it is read, and who does not read it may make room for others.
        place.is_answered();
        std::future::ready(Ok::<_, Infallible>(page.answer(&request)))
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(SILENCE)
        .max_buf_size(HEAD_MAX)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = served.await {
        tracing::debug!(%from, "a connection for metrics ended: {error}");
    }
}

/// What is served.
struct Page {
    observer: Observer,
    last: Mutex<Option<(Instant, Bytes)>>,
}

impl Page {
    fn answer(&self, request: &Request<Incoming>) -> Answer {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut answer = says(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n");
            answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return answer;
        }
        match request.uri().path() {
            "/metrics" => with(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", self.text()),
            "/healthz" => self.health(),
            _ => says(StatusCode::NOT_FOUND, "there are /metrics and /healthz\n"),
        }
    }

    fn text(&self) -> Bytes {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, text)) = &*last
            && at.elapsed() < FRESH
        {
            return text.clone();
        }
        let text = Bytes::from(super::text(&self.observer.observe()));
        *last = Some((Instant::now(), text.clone()));
        text
    }

    fn health(&self) -> Answer {
        let wrong = match self.observer.state() {
            State::Running => return says(StatusCode::OK, "ok\n"),
            State::Draining => "draining: nothing new is taken\n".to_owned(),
            State::Failed { pool } => format!("pool `{pool}` has failed: its stages panicked too often\n"),
            State::Stopped => "stopped\n".to_owned(),
        };
        says(StatusCode::SERVICE_UNAVAILABLE, wrong)
    }
}

fn says(status: StatusCode, why: impl Into<Bytes>) -> Answer {
    with(status, "text/plain; charset=utf-8", why.into())
}

fn with(status: StatusCode, kind: &'static str, body: Bytes) -> Answer {
    let mut answer = Response::new(Full::new(body));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}
