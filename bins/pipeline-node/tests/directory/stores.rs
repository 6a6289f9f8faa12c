//! What every store does, whatever is behind it: values come back, end and stay as they were told, and every call ends.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pipeline_transports::directory::Store;
use pipeline_transports::{Error, Nanos, clock};

use crate::rig::PATIENCE;
use crate::servers::{Kind, Server};

fn within(time: Duration) -> Nanos {
    clock::now() + time.as_nanos() as Nanos
}

fn run<T>(story: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(story)
}

async fn get(store: &Arc<dyn Store>, key: &str) -> Option<Vec<u8>> {
    store.get(key, within(PATIENCE)).await.unwrap_or_else(|e| panic!("{key}: {e}"))
}

async fn put(store: &Arc<dyn Store>, key: &str, value: &[u8], life: Option<Duration>) {
    store.put(key, value, life, within(PATIENCE)).await.unwrap_or_else(|e| panic!("{key}: {e}"));
}

async fn values(store: &Arc<dyn Store>) {
    let odd = "ns/mooncake/ram/[::1]:12345 ä*?[b]^\\&c=d+e%25#";
    assert_eq!(get(store, odd).await, None);
    for value in [&b"{\"a\":1}\n"[..], b"", &[0, 0xff, b'\r', b'\n', 7], &vec![b'x'; 1 << 20]] {
        put(store, odd, value, None).await;
        assert!(get(store, odd).await.as_deref() == Some(value), "{} bytes", value.len());
    }
    assert!(store.remove(odd, within(PATIENCE)).await.unwrap());
    assert!(!store.remove(odd, within(PATIENCE)).await.unwrap());
    assert_eq!(get(store, odd).await, None);
    // More than one step of any listing, and what only a pattern would find.
    for i in 0..1200 {
        put(store, &format!("list/{i:04}"), &[i as u8], None).await;
    }
    put(store, "list*", b"no", None).await;
    let keys = async |prefix: &str, most: usize| {
        let listed = store.list(prefix, most, within(PATIENCE)).await.unwrap();
        listed.into_iter().map(|(key, value)| (key, value[0])).collect::<Vec<_>>()
    };
    let all: Vec<_> = (0..1200).map(|i| (format!("list/{i:04}"), i as u8)).collect();
    assert_eq!(keys("list/", 5000).await, all);
    assert_eq!(keys("list/", 1100).await, all[..1100]);
    assert_eq!(keys("list/00", 3).await, all[..3]);
    assert_eq!(keys("nothing", 3).await, []);
    assert_eq!(keys("list*", 3).await, [("list*".to_owned(), b'n')]);
    let error = store.put("long", &vec![0; (64 << 20) + 1], None, within(PATIENCE)).await.unwrap_err();
    assert!(matches!(error, Error::BadArgument(_)), "{error}");
}

/// A life ends by itself, is as long again after each `put`, and a `put` without one stays.
async fn lives(store: &Arc<dyn Store>) {
    let life = Some(Duration::from_secs(2));
    put(store, "ends", b"1", life).await;
    put(store, "stays", b"1", life).await;
    put(store, "stays", b"2", None).await;
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(4) {
        put(store, "renewed", b"1", life).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert!(get(store, "renewed").await.is_some(), "put again in time, and gone");
    }
    while get(store, "ends").await.is_some() {
        assert!(begin.elapsed() < PATIENCE, "it never ends");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(begin.elapsed() > Duration::from_millis(1500), "ended too early");
    assert_eq!(get(store, "stays").await.as_deref(), Some(&b"2"[..]));
}

/// Frozen, killed and started again: each call ends in time and typed, and the next one on a living server succeeds.
async fn deaths(server: &mut Server, store: &Arc<dyn Store>) {
    put(store, "kept", b"1", None).await;
    server.freeze();
    for _ in 0..3 {
        let begin = Instant::now();
        let error = store.get("kept", within(Duration::from_millis(300))).await.unwrap_err();
        assert!(matches!(error, Error::Directory { .. }), "{error}");
        let took = begin.elapsed();
        assert!(took >= Duration::from_millis(290) && took < Duration::from_secs(3), "{took:?}");
    }
    server.thaw();
    assert_eq!(get(store, "kept").await.as_deref(), Some(&b"1"[..]));
    server.kill();
    let begin = Instant::now();
    let error = store.get("kept", within(PATIENCE)).await.unwrap_err();
    assert!(matches!(error, Error::Directory { .. }) && begin.elapsed() < Duration::from_secs(10), "{error}");
    assert!(error.to_string().contains("refused") || error.to_string().contains("connect"), "{error}");
    server.restart(false);
    let kept = (server.kind != Kind::Http).then(|| b"1".to_vec());
    assert_eq!(get(store, "kept").await, kept);
    server.restart(true);
    assert_eq!(get(store, "kept").await, None);
}

fn story(kind: Kind) {
    let Some(mut server) = Server::start(kind) else { return };
    let store = server.store();
    run(async {
        values(&store).await;
        lives(&store).await;
        deaths(&mut server, &store).await;
    });
}

/// Our own server: values, lives and lists are as any store's, and every call ends, also while it is frozen or dead.
#[test]
fn ours() {
    story(Kind::Http);
}

/// redis: the same.
#[test]
fn of_redis() {
    story(Kind::Redis);
}

/// etcd: the same.
#[cfg(feature = "etcd")]
#[test]
fn of_etcd() {
    story(Kind::Etcd);
}

/// With several endpoints the first that answers is asked; one that refuses and one that is silent cost no more than their
/// share of the time.
#[test]
fn several_endpoints() {
    use pipeline_transports::directory::{StoreSettings, open};
    let server = Server::start(Kind::Http).unwrap();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let silent_at = silent.local_addr().unwrap();
    let url = format!("http://127.0.0.9:9;http://{silent_at};http://127.0.0.1:{}", server.port);
    let store = open(&StoreSettings::from_url(&url).unwrap()).unwrap();
    run(async {
        store.put("k", b"v", None, within(Duration::from_secs(6))).await.unwrap();
        assert_eq!(store.get("k", within(Duration::from_secs(6))).await.unwrap().as_deref(), Some(&b"v"[..]));
    });
}

/// A redis that wants a password lets in who knows it, and tells others that this is what is wrong.
#[test]
fn redis_with_a_password() {
    use pipeline_transports::directory::{Password, StoreSettings, open};
    let Some(server) = Server::start(Kind::Redis) else { return };
    crate::servers::redis(server.port, "CONFIG SET requirepass s3cret");
    let mut settings = StoreSettings::from_url(&server.url()).unwrap();
    let ask = |settings: &StoreSettings| {
        let store = open(settings).unwrap();
        run(async { store.get("k", within(PATIENCE)).await }).map_err(|e| e.to_string())
    };
    let error = ask(&settings).unwrap_err();
    assert!(error.to_lowercase().contains("auth"), "{error}");
    settings.password = Some(Password::new("wrong"));
    let error = ask(&settings).unwrap_err();
    assert!(error.to_lowercase().contains("let us in") && !error.contains("wrong"), "{error}");
    settings.password = Some(Password::new("s3cret"));
    assert_eq!(ask(&settings), Ok(None));
}
