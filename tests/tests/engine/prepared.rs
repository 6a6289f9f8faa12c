//! Requests that are prepared once and submitted by index: what is judged when, and what may change in between.

use std::time::Duration;

use pipeline_node::{Options, PrepareError, Reason, Request, SubmitError};

use crate::rig::{
    PATIENCE, bytes_of, engine, nothing_left, open, pattern, reasons, region_of, target, until,
};

/// A range, a list and all of them carry out exactly those requests, again and again, whatever was submitted before; one
/// index may come twice.
#[test]
fn by_index() {
    let (server, client) = (target("64KiB"), engine(&[]));
    let kv = open(&client, &server).segment("kv").unwrap();
    let from = region_of(&client, &pattern(1, 16_384));
    let writes: Vec<_> = (0..16).map(|i| Request::write(&from, i * 1024, kv.at(i * 1024), 1024)).collect();
    let prepared = client.prepare(&writes).unwrap();
    assert_eq!((prepared.len(), prepared.get(3), prepared.get(16)), (16, Some(&writes[3]), None));
    let to = client.allocate(16_384).unwrap();
    let mut expected = vec![0_u8; 16_384];
    let stored = |client: &pipeline_node::Engine| {
        crate::rig::done(client, &[Request::read(&to, 0, kv.at(0), 16_384)]);
        bytes_of(&to)
    };
    let source = pattern(1, 16_384);
    let end = |batch: pipeline_node::Batch, n: usize| {
        let summary = batch.wait(PATIENCE).unwrap();
        assert!(summary.is_done() && summary.bytes == n as u64 * 1024 && batch.len() == n, "{summary:?}");
    };
    end(client.submit_prepared(&prepared, 4..7, Options::default()).unwrap(), 3);
    expected[4096..7168].copy_from_slice(&source[4096..7168]);
    assert!(stored(&client) == expected);
    end(client.submit_prepared(&prepared, &[15, 0, 15, 9], Options::default()).unwrap(), 4);
    for i in [0, 9, 15] {
        expected[i * 1024..(i + 1) * 1024].copy_from_slice(&source[i * 1024..(i + 1) * 1024]);
    }
    assert!(stored(&client) == expected);
    for _ in 0..3 {
        end(client.submit_prepared(&prepared, .., Options::default()).unwrap(), 16);
    }
    assert!(stored(&client) == source);
    nothing_left(&client, [from, to]);
}

/// What is wrong is told when it is prepared, with the index and the reason, and nothing is prepared then; an index that
/// names none, and requests of another engine, are refused whole.
#[test]
fn what_is_wrong_is_told() {
    let (server, client) = (target("64KiB"), engine(&["limits.requests=64", "limits.batches=16"]));
    let kv = open(&client, &server).segment("kv").unwrap();
    let region = client.allocate(4096).unwrap();
    let good = Request::write(&region, 0, kv.at(0), 64);
    let wrong = |request| client.prepare(&[good, request]).unwrap_err();
    let refusals = [
        (Request { local_offset: 4090, ..good }, Reason::LocalBounds),
        (Request { remote: kv.at(65_500), ..good }, Reason::RemoteBounds),
        (good.strided(100, 0, 1000), Reason::RemoteBounds),
    ];
    for (request, expected) in refusals {
        let error = wrong(request);
        let PrepareError::Refused { index: 1, failure } = &error else { panic!("{error}") };
        assert_eq!(failure.reason, expected);
        assert!(error.to_string().starts_with("request 1: peer `127.0.0.1:"), "{error}");
    }
    assert!(matches!(wrong(Request { len: 0, ..good }), PrepareError::BadRequest { index: 1, .. }));

    let prepared = client.prepare(&[good; 65]).unwrap();
    let submit = |pick: &[u32]| client.submit_prepared(&prepared, pick, Options::default());
    assert!(matches!(submit(&[0, 64, 65]), Err(SubmitError::BadRequest { index: 2, .. })));
    assert_eq!(submit(&[]).unwrap_err(), SubmitError::Empty);
    let range = |range| client.submit_prepared(&prepared, range, Options::default()).unwrap_err();
    assert!(matches!(range(60..66), SubmitError::BadRequest { index: 5, .. }));
    assert_eq!(range(0..65), SubmitError::TooLarge { asked: 65, limit: 64 });
    let other = engine(&[]);
    let elsewhere = other.submit_prepared(&prepared, 0..1, Options::default()).unwrap_err();
    assert_eq!(elsewhere, SubmitError::PreparedElsewhere);

    // Busy is answered, and waited for, as with requests that are not prepared.
    let first = client.submit_prepared(&prepared, 0..60, Options::default()).unwrap();
    assert!(matches!(range(0..5), SubmitError::Busy { .. }));
    std::thread::scope(|scope| {
        let second = scope
            .spawn(|| client.submit_prepared_wait(&prepared, 0..60, Options::default(), PATIENCE).unwrap());
        first.wait(PATIENCE).unwrap();
        drop(first);
        assert!(second.join().unwrap().wait(PATIENCE).unwrap().is_done());
    });
    nothing_left(&client, [region]);
}

/// Prepared requests hold nothing: their region may be unregistered, after which those that name it fail
/// `NotRegistered`, also when other memory was registered since; the others of the batch are done.
#[test]
fn a_region_that_is_gone() {
    let (server, client) = (target("64KiB"), engine(&["limits.regions=2"]));
    let kv = open(&client, &server).segment("kv").unwrap();
    let (stays, goes) = (client.allocate(4096).unwrap(), client.allocate(4096).unwrap());
    let prepared = client
        .prepare(&[
            Request::read(&stays, 0, kv.at(0), 64),
            Request::read(&goes, 0, kv.at(64), 64),
            Request::read(&stays, 64, kv.at(128), 64),
        ])
        .unwrap();
    client.unregister(goes).map_err(|(_, e)| e).expect("nothing pins it");
    let fresh = region_of(&client, &[7; 4096]);
    let batch = client.submit_prepared(&prepared, .., Options::default()).unwrap();
    assert_eq!(batch.wait(PATIENCE).unwrap().bytes, 128);
    assert_eq!(reasons(&batch), [None, Some(Reason::NotRegistered), None]);
    assert!(bytes_of(&fresh) == [7; 4096], "memory that was registered since is another's");
    drop(batch);
    nothing_left(&client, [stays, fresh]);
}

/// After the peer was started again prepared requests fail `StalePeer`, and move nothing, however its new memory looks.
#[test]
fn a_peer_that_was_restarted() {
    let (server, client) = (target("64KiB"), engine(&[]));
    let address = server.local_address().to_string();
    let peer = open(&client, &server);
    let region = region_of(&client, &[9; 64]);
    let prepared =
        client.prepare(&[Request::write(&region, 0, peer.segment("kv").unwrap().at(0), 64)]).unwrap();
    server.stop();
    drop(server);
    let listen = format!("node.listen='{address}'");
    let _again = engine(&[&listen, "segments.kv={ kind='dram', size='64KiB', access='read_write' }"]);
    let incarnation = peer.incarnation();
    let come = || client.open_within(&address, Duration::from_secs(5));
    until("it is back", || come().is_ok_and(|peer| peer.incarnation() != incarnation));
    let batch = client.submit_prepared(&prepared, .., Options::default()).unwrap();
    assert_eq!(batch.wait(PATIENCE).unwrap().failed, 1);
    assert_eq!(reasons(&batch), [Some(Reason::StalePeer)]);
    drop(batch);
    let kv = come().unwrap().segment("kv").unwrap();
    let to = client.allocate(64).unwrap();
    crate::rig::done(&client, &[Request::read(&to, 0, kv.at(0), 64)]);
    assert!(bytes_of(&to) == [0; 64]);
    nothing_left(&client, [region, to]);
}
