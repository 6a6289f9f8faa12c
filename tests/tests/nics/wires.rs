//! NICs that are interfaces, each with a wire of its own to a server in another network, whose rates are held by the kernel's
//! token bucket: what goes by which.

use std::process::Command;

use pipeline_node::{Engine, Region, Request, Segment};
use pipeline_transports::interfaces::Interfaces;
use pipeline_transports::tcp::{Nic, stray};

use crate::accounts::{distance, left_by, moved};
use crate::namespace::{Far, alone, ip, set};
use crate::rig::{done, engine, nothing_left, pattern, region_of, until};

/// Bytes of a slice in these tests.
pub const SLICE: u64 = 64 << 10;

/// Holds an interface of this network to a rate.
#[track_caller]
pub fn limit(interface: &str, mbit: u32) {
    let words = format!("qdisc replace dev {interface} root tbf rate {mbit}mbit burst 128kb latency 40ms");
    let output = Command::new("tc").args(words.split(' ')).output().unwrap();
    assert!(output.status.success(), "tc {words}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A server at the far end of all wires, and a client here with a NIC for each.
pub struct Rails {
    pub far: Far,
    pub client: Engine,
    /// Kept alive.
    _server: Engine,
    pub kv: Segment,
}

/// What a server of these tests is made of, besides its segment.
fn serve(far: &Far, more: Vec<String>) -> Engine {
    far.run(move || {
        let kv = "segments.kv={ kind='dram', size='256MiB', access='read_write' }".to_owned();
        let set = [vec![kv, "node.listen='0.0.0.0:0'".into()], more].concat();
        engine(&set.iter().map(String::as_str).collect::<Vec<_>>())
    })
}

fn names(kind: &str, count: u8) -> String {
    let names: Vec<String> = (0..count).map(|n| format!("'{kind}{n}'")).collect();
    format!("transports.tcp.nics=[{}]", names.join(", "))
}

impl Rails {
    /// The client knows the first address of the server, which tells those of its NICs.
    pub fn told(count: u8, more: &[&str]) -> Self {
        let far = Far::rails(count);
        let server = serve(&far, vec![names("far", count)]);
        let first = format!("10.8.0.2:{}", server.local_address().port());
        Self::of(far, server, &first, count, more, engine)
    }

    /// The client's file lists the addresses of the server, in an order that is not that of its NICs.
    pub fn listed(count: u8, more: &[&str]) -> Self {
        Self::listed_by(count, more, engine)
    }

    /// As [`Self::listed`], with a client that is made otherwise.
    pub fn listed_by(count: u8, more: &[&str], make: impl FnOnce(&[&str]) -> Engine) -> Self {
        let far = Far::rails(count);
        let server = serve(&far, Vec::new());
        let port = server.local_address().port();
        let addresses: Vec<String> = (0..count).rev().map(|n| format!("'10.8.{n}.2:{port}'")).collect();
        let peer = format!("peers.b=[{}]", addresses.join(", "));
        Self::of(far, server, "b", count, &[&[peer.as_str()][..], more].concat(), make)
    }

    fn of(
        far: Far,
        server: Engine,
        peer: &str,
        count: u8,
        more: &[&str],
        make: impl FnOnce(&[&str]) -> Engine,
    ) -> Self {
        let nics = names("rail", count);
        let client = make(&[&[nics.as_str()][..], more].concat());
        let kv = client.open(peer).unwrap_or_else(|e| panic!("{e}")).segment("kv").unwrap();
        until("every NIC has two links", || client.nics().iter().all(|nic| nic.links == 2));
        Self { far, client, _server: server, kv }
    }

    /// Requests that write the whole of a region, slice by slice.
    pub fn writes(&self, region: &Region) -> Vec<Request> {
        let starts = (0..region.len()).step_by(SLICE as usize);
        starts.map(|at| Request::write(region, at, self.kv.at(at), SLICE)).collect()
    }

    /// What was written is what is there.
    #[track_caller]
    pub fn check(&self, bytes: &[u8]) {
        let back = self.client.allocate(bytes.len() as u64).unwrap();
        done(&self.client, &[Request::read(&back, 0, self.kv.at(0), bytes.len() as u64)]);
        assert!(crate::rig::bytes_of(&back) == bytes, "other bytes than were written");
        nothing_left(&self.client, [back]);
    }
}

/// Bytes by the figures of the client, and by those of the interfaces, while `work` is done.
fn measured(rails: &Rails, count: u8, work: impl FnOnce()) -> (Vec<u64>, Vec<u64>) {
    let wires = || (0..count).map(|n| left_by(&format!("rail{n}"))).collect::<Vec<_>>();
    let (nics, sent) = (rails.client.nics(), wires());
    work();
    let sent = wires().iter().zip(sent).map(|(now, before)| now - before).collect();
    (moved(&rails.client, &nics), sent)
}

/// Equal wires carry equal parts within a tenth, by the client's figures and by the kernel's, and what the one says of a NIC the
/// other says of its interface.
fn striped(rails: &Rails, count: u8, len: usize) {
    (0..count).for_each(|n| limit(&format!("rail{n}"), 240));
    let bytes = pattern(7, len);
    let region = region_of(&rails.client, &bytes);
    let (told, sent) = measured(rails, count, || done(&rails.client, &rails.writes(&region)));
    assert_eq!(told.iter().sum::<u64>(), len as u64);
    assert!(distance(&told) <= 0.1, "{told:?}");
    // Heads, frames and answers are in what the interfaces count.
    for (told, sent) in told.iter().zip(&sent) {
        assert!((0.99..1.1).contains(&(*sent as f64 / *told as f64)), "{told} told, {sent} sent");
    }
    rails.check(&bytes);
    nothing_left(&rails.client, [region]);
}

/// Two NICs of one network: bound by address both leave by the first interface, as the system routes, which is what `doctor`
/// is told of; bound to their devices each leaves by its own.
#[test]
fn two_nics_of_one_network() {
    alone("wires::two_nics_of_one_network", || {
        let far = Far::rails(2);
        ip("addr flush dev rail1");
        ip("addr add 10.8.0.11/24 dev rail1");
        far.run(|| {
            ip("addr flush dev far1");
            // What goes back to each goes by its own wire.
            ip("route add 10.8.0.11/32 dev far1");
            ip("route add 10.8.0.1/32 dev far0");
        });
        let server = serve(&far, Vec::new());
        let to = format!("10.8.0.2:{}", server.local_address().port());
        let on = Interfaces::now().unwrap();
        let nic = |name: &str| Nic { name: name.into(), address: None, device: Some(name.into()) };
        let addresses = [to.parse().unwrap()];
        assert_eq!(stray(&nic("rail0"), &addresses, &on), None);
        let why = stray(&nic("rail1"), &addresses, &on).unwrap();
        assert!(why.contains("leaves by `rail0` and not by `rail1`") && why.contains("bind = "), "{why}");
        for (bind, least) in [("address", 0.0), ("device", 0.4)] {
            let bind = format!("transports.tcp.bind='{bind}'");
            let client = engine(&[&names("rail", 2), &bind]);
            let kv = client.open(&to).unwrap().segment("kv").unwrap();
            until("every NIC has two links", || client.nics().iter().all(|nic| nic.links == 2));
            let region = client.allocate(16 << 20).unwrap();
            let (before, sent) = (client.nics(), left_by("rail1"));
            let slices = (0..region.len()).step_by(SLICE as usize);
            let writes: Vec<_> = slices.map(|at| Request::write(&region, at, kv.at(at), SLICE)).collect();
            done(&client, &writes);
            let (told, sent) = (moved(&client, &before), (left_by("rail1") - sent) as f64);
            let share = sent / region.len() as f64;
            assert!(share >= least && (share < 0.05) == (least == 0.0), "{bind}: {told:?}, {sent} by rail1");
            nothing_left(&client, [region]);
        }
    });
}

/// A NIC that is tied to an interface which does not lead to the peer is to blame for what does not answer there, and not the
/// peer: it is named with the interface by which the system would go.
#[test]
fn a_wrong_interface_is_the_nics_fault() {
    alone("wires::a_wrong_interface_is_the_nics_fault", || {
        let far = Far::rails(2);
        // On each wire only its own address answers, as with machines of their own.
        far.run(|| set("conf/all/arp_ignore", "1"));
        let server = serve(&far, Vec::new());
        let to = format!("10.8.0.2:{}", server.local_address().port());
        let tied = ["transports.tcp.nics=['rail1']", "transports.tcp.bind='device'", "limits.connect='2s'"];
        let client = engine(&tied);
        let error = client.open(&to).unwrap_err().to_string();
        assert!(error.contains("`rail1`") && error.contains("routes lead there by `rail0`"), "{error}");
        assert!(client.nics()[0].local_failures > 0, "{:?}", client.nics());
    });
}

/// Two wires, whose addresses at the server the server itself tells: each carries half, within a tenth.
#[test]
fn two_wires_carry_halves() {
    alone("wires::two_wires_carry_halves", || {
        let rails = Rails::told(2, &[]);
        striped(&rails, 2, 48 << 20);
    });
}

/// Four wires, whose addresses the client's file lists in another order: each carries a quarter, within a tenth.
#[test]
fn four_wires_carry_quarters() {
    alone("wires::four_wires_carry_quarters", || {
        let rails = Rails::listed(4, &[]);
        striped(&rails, 4, 64 << 20);
    });
}

/// A wire that is three times as fast carries clearly more, about three times as much on a machine that has time: least_loaded
/// measures it.
#[test]
fn a_faster_wire_carries_more() {
    alone("wires::a_faster_wire_carries_more", || {
        // What is chosen at once is chosen by what was measured before: little enough that what is outstanding corrects it.
        let window = ["limits.bytes_in_flight='4MiB'", "limits.peer_share='100%'"];
        let rails = Rails::told(2, &["stages.select.policy='least_loaded'", window[0], window[1]]);
        limit("rail0", 80);
        limit("rail1", 240);
        let bytes = pattern(9, 32 << 20);
        let region = region_of(&rails.client, &bytes);
        done(&rails.client, &rails.writes(&region));
        let (told, _) = measured(&rails, 2, || done(&rails.client, &rails.writes(&region)));
        let times = told[1] as f64 / told[0] as f64;
        assert!((1.5..5.0).contains(&times), "{times}: {told:?}");
        rails.check(&bytes);
        nothing_left(&rails.client, [region]);
    });
}
