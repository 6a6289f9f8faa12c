//! Resident threads: named, pinned before they work, all or none.
//! Deliberately not a task pool: a thread runs one worker for ever.

use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::cpus;
use crate::engine::StartError;
use crate::item::Item;
use crate::signals;
use crate::worker::Worker;

/// Starts a thread for each worker. On an error no worker has run, and no thread is left.
pub(crate) fn spawn<T: Item>(workers: Vec<Worker<T>>) -> Result<Vec<JoinHandle<()>>, StartError> {
    let count = workers.len();
    let (ready, readies) = bounded(count);
    let (go, goes) = bounded(count);
    let mut threads = Vec::with_capacity(count);
    let mut started = Ok(());
    for worker in workers {
        match start(worker, ready.clone(), goes.clone()) {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                started = Err(error);
                break;
            }
        }
    }
    // Each thread tells exactly once, even if it dies: then its sender is dropped untold.
    drop(ready);
    for _ in 0..threads.len() {
        match readies.recv() {
            Ok(Ok(())) => {}
            Ok(Err(error)) => started = started.and(Err(error)),
            Err(_) => break,
        }
    }
    if started.is_ok() {
        for _ in 0..threads.len() {
            let _ = go.send(()); // There is room for all.
        }
        return Ok(threads);
    }
    // Closing the gate sends every waiting thread home.
    drop(go);
    for thread in threads {
        let _ = thread.join();
    }
    started.map(|()| Vec::new())
}

fn start<T: Item>(
    worker: Worker<T>,
    ready: Sender<Result<(), StartError>>,
    go: Receiver<()>,
) -> Result<JoinHandle<()>, StartError> {
    let (name, cpu) = (worker.name.clone(), worker.cpu);
    let body = move || {
        let pinned = match cpu {
            Some(cpu) => cpus::pin(cpu).map_err(|source| StartError::Pin {
                worker: worker.name.clone(),
                cpu,
                allowed: cpus::Cpus::of_process().allowed.clone(),
                source,
            }),
            None => Ok(()),
        };
        let _ = ready.send(pinned); // There is room for all.
        if go.recv().is_ok() {
            worker.run();
        }
    };
    let _signals = signals::block();
    std::thread::Builder::new()
        .name(name.clone())
        .spawn(body)
        .map_err(|source| StartError::Thread { worker: name, source })
}
