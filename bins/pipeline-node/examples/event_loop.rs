//! A server with an event loop of its own: clients ask it for pages over a socket, it reads them from another node, and
//! answers when they are there. One thread, one epoll set, one doorbell for all batches.

use std::error::Error;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use pipeline_node::{Batch, Engine, Options, Request};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

const HOLDER: &str = r#"
version = 1
use = "tcp"
segments.pages = { kind = "dram", size = "1MiB", access = "read" }
"#;
const SERVER: &str = r#"
version = 1
use = "tcp"
stages.notify = { via = ["eventfd"] }
"#;
const PAGE: u64 = 4096;
const CLIENTS: u64 = 1;
const DOORBELL: u64 = 2;

/// Answers every client that asks, until all have hung up; says how many pages it has served.
fn serve(engine: &Engine, holder: &str, mut clients: UnixStream) -> Result<usize, Box<dyn Error>> {
    let cache = engine.allocate(256 * PAGE)?;
    let pages = engine.open(holder)?.segment("pages")?;
    let doorbell = engine.doorbell()?;
    let set = epoll::create(CreateFlags::CLOEXEC)?;
    clients.set_nonblocking(true)?;
    epoll::add(&set, &clients, EventData::new_u64(CLIENTS), EventFlags::IN)?;
    epoll::add(&set, &doorbell, EventData::new_u64(DOORBELL), EventFlags::IN)?;

    let (mut under_way, mut events) = (Vec::<(u8, Batch)>::new(), Vec::with_capacity(2));
    let (mut served, mut open) = (0, true);
    while open || !under_way.is_empty() {
        events.clear();
        epoll::wait(&set, rustix::buffer::spare_capacity(&mut events), None)?;
        for event in &events {
            if event.data.u64() == CLIENTS {
                let mut asked = [0; 64];
                let n = clients.read(&mut asked)?;
                for &page in &asked[..n] {
                    let at = u64::from(page) * PAGE;
                    let options = Options { notify: Some(doorbell.clone()), ..Options::default() };
                    let read = Request::read(&cache, at, pages.at(at), PAGE);
                    under_way.push((page, engine.submit(&[read], options)?));
                }
                if n == 0 {
                    open = false;
                    epoll::delete(&set, &clients)?;
                }
            } else if doorbell.take() > 0 {
                // Some are done; each says so by one load.
                for (page, batch) in under_way.extract_if(.., |(_, batch)| batch.poll().is_some()) {
                    assert!(batch.poll().is_some_and(|summary| summary.is_done()), "{batch:?}");
                    clients.write_all(&[page])?;
                    served += 1;
                }
            }
        }
    }
    Ok(served)
}

/// A client asks for every page, and hears of each once.
pub fn main() -> Result<(), Box<dyn Error>> {
    let (holder, server) = (Engine::from_toml(HOLDER)?, Engine::from_toml(SERVER)?);
    let (ours, mut theirs) = UnixStream::pair()?;
    let address = holder.local_address().to_string();
    let served = std::thread::scope(|scope| {
        let loops = scope.spawn(|| serve(&server, &address, ours).map_err(|error| error.to_string()));
        theirs.write_all(&(0..=255).collect::<Vec<u8>>())?;
        theirs.shutdown(std::net::Shutdown::Write)?;
        let mut told = Vec::new();
        theirs.read_to_end(&mut told)?;
        told.sort_unstable();
        assert_eq!(told, (0..=255).collect::<Vec<u8>>());
        loops.join().expect("it does not panic").map_err(Box::<dyn Error>::from)
    })?;
    println!("{served} pages served by one thread and one doorbell");
    Ok(())
}
