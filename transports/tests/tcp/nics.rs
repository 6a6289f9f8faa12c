//! Several NICs of one transport: where lanes leave from, which address of the peer they go to, and what is said of a NIC
//! that cannot be used. The addresses are of the loopback network, all of which this machine has.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;

use pipeline_transports::tcp::hello::Hello;
use pipeline_transports::tcp::{Nic, Settings, TcpTransport};
use pipeline_transports::transport::SessionId;
use pipeline_transports::{Error, Link, LinkId, NicId, PairId, Path, Regions, Transport};

use crate::rig::{NoControl, no_wakes, runtime, soon};

fn nic(name: &str, address: Option<&str>, device: Option<&str>) -> Nic {
    Nic { name: name.into(), address: address.map(|a| a.parse().unwrap()), device: device.map(str::to_owned) }
}

/// A transport with halves for all of its NICs.
fn transport(nics: Vec<Nic>, bind_device: bool) -> TcpTransport {
    let settings = Settings { nics, bind_device, ..Settings::default() };
    let transport = TcpTransport::new("tcp", settings, Arc::new(Regions::new(4)));
    for nic in 0..transport.nics().len() as u16 {
        // Nobody drives them: no lane of these tests carries anything.
        drop(transport.attach(NicId(nic), PairId(0), no_wakes()).unwrap());
    }
    transport
}

fn dial(from: &TcpTransport, nic: u16, control: SocketAddr, addresses: &[SocketAddr]) -> Result<Link, Error> {
    let path = Path {
        link: LinkId(1),
        nic: NicId(nic),
        pair: PairId(0),
        lane: 0,
        peer: "target".into(),
        address: control,
        addresses: addresses.into(),
        session: SessionId([7; 16]),
        incarnation: 1,
        avoid: Vec::new(),
    };
    runtime().block_on(from.dial(&path, &from.offer(), &mut NoControl, soon()))
}

/// Answers hellos of lanes, and tells where each came from.
struct Target {
    address: SocketAddr,
    came: crossbeam_channel::Receiver<IpAddr>,
}

impl Target {
    fn on(address: &str) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let address = listener.local_addr().unwrap();
        let (told, came) = crossbeam_channel::bounded(16);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut preamble = [0; 36 + 3 + 24];
                stream.read_exact(&mut preamble).unwrap();
                stream.write_all(&Hello::answer(Some(&Settings::default().hello()))).unwrap();
                told.send(stream.peer_addr().unwrap().ip()).unwrap();
            }
        });
        Self { address, came }
    }

    /// Where the next lane came from.
    fn next(&self) -> String {
        self.came.recv().unwrap().to_string()
    }
}

/// A lane leaves from the address of its NIC, told or that of its interface, and with `bind_device` as well.
#[test]
fn lanes_leave_from_their_nic() {
    let nics = vec![
        nic("a", Some("127.0.0.11"), Some("a")),
        nic("b", Some("127.0.0.12"), None),
        nic("lo", None, Some("lo")),
    ];
    for bind_device in [false, true] {
        let a = transport(nics.clone(), bind_device);
        let target = Target::on("127.0.0.1:0");
        for (nic, from) in (0..).zip(["127.0.0.11", "127.0.0.12", "127.0.0.1"]) {
            dial(&a, nic, target.address, &[]).unwrap();
            assert_eq!(target.next(), from, "{bind_device}");
        }
    }
}

/// A NIC whose interface or address is not there fails as this side's, with what to do, and the peer hears nothing of it;
/// its facts say the same, and those of a NIC that is well say what it is.
#[test]
fn a_nic_that_is_not_there() {
    let nics = vec![
        nic("gone", None, Some("no-such0")),
        nic("moved", Some("192.0.2.77"), Some("lo")),
        nic("well", Some("127.0.0.13"), None),
    ];
    let a = transport(nics, false);
    let target = Target::on("127.0.0.1:0");
    for (at, name, words) in
        [(0, "gone", ["no interface `no-such0`", "nics.gone.device"]), (1, "moved", ["192.0.2.77", "dev lo"])]
    {
        let error = dial(&a, at, target.address, &[]).err().unwrap();
        let Error::LocalNic { nic, reason } = &error else { panic!("{error}") };
        assert!(nic == name && words.iter().all(|word| reason.contains(word)), "{error}");
        assert_eq!(a.nic_facts(NicId(at)).resting.as_ref(), Some(reason));
    }
    assert!(target.came.is_empty());
    let well = a.nic_facts(NicId(2));
    assert_eq!((well.resting, &*well.address), (None, "127.0.0.13"));
    // Without NICs in the file nothing is known, and nothing rests.
    assert_eq!(transport(Vec::new(), false).nic_facts(NicId(0)), Default::default());
}

/// The NICs of both sides are paired by number; one that does not answer costs its lane another try and is then left for
/// later; and whoever sits there instead of the peer is passed over.
#[test]
fn addresses_of_the_peer_are_shared_out() {
    let nics = vec![nic("a", Some("127.0.0.11"), None), nic("b", Some("127.0.0.12"), None)];
    let a = transport(nics, false);
    let (one, two) = (Target::on("127.0.0.21:0"), Target::on("127.0.0.22:0"));
    let refusing = SocketAddr::from(([127, 0, 0, 24], 9));
    let dial =
        |nic, addresses: &[SocketAddr]| dial(&a, nic, one.address, addresses).map(|link| link.remote_nic);
    let both = [one.address, two.address];
    assert_eq!([dial(0, &both).unwrap(), dial(1, &both).unwrap()], [0, 1]);
    assert_eq!([one.next(), two.next()], ["127.0.0.11", "127.0.0.12"]);
    // NIC 1 should take the one that refuses.
    assert_eq!(dial(1, &[one.address, refusing]).unwrap(), 0);
    assert_eq!(one.next(), "127.0.0.12");
    // Somebody else listens where the peer is said to be: he hangs up, and the other address is taken.
    let stranger = TcpListener::bind("127.0.0.23:0").unwrap();
    let at = stranger.local_addr().unwrap();
    let hung_up = std::thread::spawn(move || drop(stranger.accept().unwrap()));
    assert_eq!(dial(1, &[one.address, at]).unwrap(), 0);
    hung_up.join().unwrap();
    // All of them dead: the last word is about an address, and no NIC is blamed.
    assert!(matches!(super::nics::dial(&a, 0, refusing, &[refusing]), Err(Error::Unreachable { .. })));
}
