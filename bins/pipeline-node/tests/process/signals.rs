//! Signals are the application's (B53): the engine installs no handler, ignores nothing, blocks nothing in threads that are
//! not its own, and its own threads never run a handler of the application.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI32, Ordering::SeqCst};

use pipeline_node::{Options, Request};

use crate::node::Node;
use crate::rig::{PATIENCE, done, engine, until};
use crate::{is_scene, scene};

const SCENE: &str = "signals::scene_of_an_application";
const OURS: [libc::c_int; 5] = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGUSR1, libc::SIGSEGV];

/// The thread that ran the handler last.
static HANDLED_BY: AtomicI32 = AtomicI32::new(0);

extern "C" fn handle(_: libc::c_int) {
    // SAFETY: asks for a number, and may be called in a handler.
    HANDLED_BY.store(unsafe { libc::gettid() }, SeqCst);
}

/// What the kernel says of one thread: caught, ignored, blocked.
type Masks = [u64; 3];

fn masks() -> BTreeMap<i32, Masks> {
    let mask = |status: &str, name| {
        let line = status.lines().find_map(|l| l.strip_prefix(name)).unwrap();
        u64::from_str_radix(line.trim(), 16).unwrap()
    };
    let of = |entry: std::fs::DirEntry| {
        let status = std::fs::read_to_string(entry.path().join("status")).ok()?;
        let tid = entry.file_name().to_str()?.parse().ok()?;
        Some((tid, ["SigCgt:", "SigIgn:", "SigBlk:"].map(|name| mask(&status, name))))
    };
    std::fs::read_dir("/proc/self/task").unwrap().filter_map(|entry| of(entry.unwrap())).collect()
}

/// Handlers as they are installed.
fn handlers() -> Vec<(usize, i32)> {
    let of = |signal| {
        // SAFETY: a plain structure of C, for which all zeros are valid.
        let mut old: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: asks only; the place for the answer is live.
        assert_eq!(unsafe { libc::sigaction(signal, std::ptr::null(), &mut old) }, 0);
        (old.sa_sigaction, old.sa_flags)
    };
    (1..32).map(of).collect()
}

/// In a program with handlers of its own, and with SIGPIPE as the system has it, nothing of its signals changes while an
/// engine starts, transfers, writes to a peer that is gone, and stops; SIGTERM reaches the program's handler, on a
/// thread of the program.
#[test]
fn signals_are_the_applications() {
    let output = scene(SCENE).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&text));
}

/// The application of [`signals_are_the_applications`].
#[test]
#[ignore = "runs in a process of its own, started by another test"]
fn scene_of_an_application() {
    if !is_scene(SCENE) {
        return;
    }
    for signal in OURS {
        // SAFETY: a plain structure of C, for which all zeros are valid.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = handle as *const () as usize;
        // SAFETY: the handler only stores and asks for a number, and takes what the kernel gives it.
        assert_eq!(unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) }, 0);
    }
    // SAFETY: back to what a program finds that is not written in Rust.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    // A thread that starts another one has all signals blocked for a moment: wait until none does.
    let mut before = masks();
    until("no thread starts another one", || {
        std::thread::sleep(std::time::Duration::from_millis(10));
        let now = masks();
        std::mem::replace(&mut before, now.clone()) == now
    });
    let installed = handlers();

    let mut node = Node::target("64MiB", &[]);
    let client = engine(&["stages.split.slice='64KiB'"]);
    let kv = client.open(&node.address).unwrap().segment("kv").unwrap();
    let region = client.allocate(64 << 20).unwrap();
    done(&client, &[Request::write(&region, 0, kv.at(0), 64 << 20)]);
    compare(&before, &installed);

    for _ in 0..20 {
        HANDLED_BY.store(0, SeqCst);
        // SAFETY: to ourselves, and there is a handler.
        unsafe { libc::kill(libc::getpid(), libc::SIGTERM) };
        until("the handler has run", || HANDLED_BY.load(SeqCst) != 0);
        let by = HANDLED_BY.load(SeqCst);
        assert!(before.contains_key(&by), "a thread of the engine ran the application's handler");
    }

    let all = [Request::write(&region, 0, kv.at(0), 64 << 20)];
    let batches: Vec<_> = (0..8).map(|_| client.submit(&all, Options::default()).unwrap()).collect();
    node.crash();
    let failed = batches.iter().filter(|b| b.wait(PATIENCE).unwrap().failed > 0).count();
    assert!(failed > 0, "all were done before the peer was gone");
    compare(&before, &installed);
    drop((batches, kv, client));
    assert_eq!((masks(), handlers()), (before, installed), "something is left behind");
}

fn compare(before: &BTreeMap<i32, Masks>, installed: &[(usize, i32)]) {
    let now = masks();
    assert!(now.len() > before.len(), "the engine has no threads?");
    assert_eq!(handlers(), installed);
    let [caught, ignored, _] = *before.values().next().unwrap();
    for (tid, masks) in &now {
        match before.get(tid) {
            Some(old) => assert_eq!(masks, old, "thread {tid}"),
            None => {
                assert_eq!(masks[..2], [caught, ignored]);
                let open: Vec<_> = (1..32).filter(|signal| masks[2] & 1 << (signal - 1) == 0).collect();
                let faults = [4, 5, 7, 8, 9, 11, 19, 31]; // What a thread does to itself, KILL and STOP.
                assert!(
                    open.iter().all(|signal| faults.contains(signal)),
                    "open on our thread {tid}: {open:?}"
                );
            }
        }
    }
}
