//! NICs that are addresses of the loopback network, all of which every machine has: no wire, no root.

use std::net::IpAddr;

use pipeline_node::{Engine, Region, Request, Segment};

use crate::accounts::{distance, moved, received};
use crate::rig::{done, engine, nothing_left, open, target, until};

/// A client with so many NICs, `n0` at 127.0.0.11 and so on.
fn client(nics: u8) -> Engine {
    let names: Vec<String> = (0..nics).map(|n| format!("'n{n}'")).collect();
    let mut set = vec![format!("transports.tcp.nics=[{}]", names.join(", "))];
    set.extend((0..nics).map(|n| format!("nics.n{n}.address='127.0.0.{}'", 11 + n)));
    engine(&set.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Until each NIC has the links that its file asks for.
fn until_linked(client: &Engine) {
    until("every NIC has two links", || client.nics().iter().all(|nic| nic.links == 2));
}

/// One batch of `slices` WRITEs of `len` bytes, from the start of both.
fn write(client: &Engine, region: &Region, kv: &Segment, slices: u64, len: u64) {
    let wrap = region.len() / len;
    let at = |i: u64| i % wrap * len;
    let requests: Vec<_> = (0..slices).map(|i| Request::write(region, at(i), kv.at(at(i)), len)).collect();
    done(client, &requests);
}

/// B35: eight equal NICs get an eighth of 8 000 slices each, and none stays idle.
#[test]
fn eight_nics_take_equal_parts() {
    let (server, client) = (target("64MiB"), client(8));
    let kv = open(&client, &server).segment("kv").unwrap();
    let region = client.allocate(64 << 20).unwrap();
    until_linked(&client);
    let before = client.nics();
    for _ in 0..8 {
        write(&client, &region, &kv, 1000, 64 << 10);
    }
    let slices: Vec<u64> =
        client.nics().iter().zip(&before).map(|(now, before)| now.since(before).slices).collect();
    assert_eq!(slices.iter().sum::<u64>(), 8000);
    assert!(distance(&slices) <= 0.2, "{slices:?}");
    assert!(client.nics().iter().all(|nic| nic.errors == 0 && nic.facts.resting.is_none()));
    nothing_left(&client, [region]);
}

/// B37: two NICs are two source addresses at the server, each with two fifths to three fifths of a gibibyte, and what the client
/// says of each NIC is what the server's kernel received from its address, within a hundredth.
#[test]
#[ignore = "a gibibyte: part `nics` of scripts/test"]
fn both_source_addresses_carry_half() {
    let (server, client) = (target("64MiB"), client(2));
    let kv = open(&client, &server).segment("kv").unwrap();
    let region = client.allocate(64 << 20).unwrap();
    until_linked(&client);
    let (before, port) = (client.nics(), server.local_address().port());
    let received_before = received(port);
    for _ in 0..16 {
        write(&client, &region, &kv, 64, 1 << 20);
    }
    let (told, after) = (moved(&client, &before), received(port));
    assert_eq!(told.iter().sum::<u64>(), 1 << 30);
    for (n, told) in told.into_iter().enumerate() {
        let from: IpAddr = format!("127.0.0.{}", 11 + n).parse().unwrap();
        let got = after[&from] - received_before.get(&from).copied().unwrap_or(0);
        let share = told as f64 / (1_u64 << 30) as f64;
        assert!((0.4..=0.6).contains(&share), "{from} carried {share}");
        assert!((got as f64 / told as f64 - 1.0).abs() <= 0.01, "{from}: {told} told, {got} received");
    }
    nothing_left(&client, [region]);
}

/// One large request is not one NIC's: it is cut, and all NICs carry it.
#[test]
fn one_request_takes_all_nics() {
    let (server, client) = (target("64MiB"), client(4));
    let kv = open(&client, &server).segment("kv").unwrap();
    let region = client.allocate(64 << 20).unwrap();
    until_linked(&client);
    let before = client.nics();
    done(&client, &[Request::write(&region, 0, kv.at(0), 64 << 20)]);
    let parts = moved(&client, &before);
    assert_eq!(parts.iter().sum::<u64>(), 64 << 20);
    assert!(parts.iter().all(|part| *part >= 8 << 20), "{parts:?}");
    nothing_left(&client, [region]);
}
