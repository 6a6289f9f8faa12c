//! The network below a device, and what breaks it. Whatever a test has broken is mended when it ends, however it ends.
//! Deliberately without a word about nodes. What needs to be quick is a system call of ours; the rest is done by the bed's
//! own `fault`.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::process::Command;

use crate::bed::device;
use crate::rig::until;

/// The two ends of one device's wire, and its address.
pub struct Wire {
    index: usize,
    queued: bool,
    unaddressed: bool,
}

/// Which end of a wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The device's own: its port goes down.
    Own,
    /// The switch's: a cable is pulled.
    Switch,
}

impl Wire {
    pub fn of(index: usize) -> Self {
        Self { index, queued: false, unaddressed: false }
    }

    fn end(&self, end: End) -> String {
        let letter = if end == End::Own { "nic" } else { "p" };
        format!("{letter}{}", self.index)
    }

    /// Takes an end down.
    pub fn cut(&self, end: End) {
        set_up(&self.end(end), false);
    }

    /// Takes it up again.
    pub fn join(&self, end: End) {
        set_up(&self.end(end), true);
    }

    /// Waits until the device is active: some time after the wire is whole.
    #[track_caller]
    pub fn is_back(&self) {
        let state = Path::new("/sys/class/infiniband").join(device(self.index)).join("ports/1/state");
        until("the port is active", || std::fs::read_to_string(&state).unwrap().contains("ACTIVE"));
    }

    /// Loses so many packets of a hundred, both ways.
    pub fn lose(&mut self, percent: u32) {
        self.queued = true;
        self.fault("loss", &[&percent.to_string()]);
    }

    /// Holds every packet that the device sends back for so long.
    pub fn delay(&mut self, ms: u32) {
        self.queued = true;
        self.fault("delay", &[&ms.to_string()]);
    }

    /// No loss, and no delay.
    pub fn mend(&mut self) {
        self.fault("mend", &[]);
        self.queued = false;
    }

    /// Takes the device's address away, and its GID with it.
    pub fn take_address(&mut self) {
        self.fault("address-del", &[]);
        self.unaddressed = true;
    }

    /// Gives it back.
    pub fn give_address(&mut self) {
        self.fault("address-add", &[]);
        self.unaddressed = false;
    }

    /// Bytes that the device has sent so far, by the kernel's count.
    pub fn sent(&self) -> u64 {
        let path = format!("/sys/class/net/{}/statistics/tx_bytes", self.end(End::Own));
        std::fs::read_to_string(path).unwrap().trim().parse().unwrap()
    }

    #[track_caller]
    fn fault(&self, what: &str, more: &[&str]) {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("rdma-vm/fault");
        let status = Command::new(&script).args([what, &self.index.to_string()]).args(more).status().unwrap();
        assert!(status.success(), "{} {what} {}: {status}", script.display(), self.index);
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        if self.queued {
            self.mend();
        }
        if self.unaddressed {
            self.give_address();
        }
        self.join(End::Switch);
        self.join(End::Own);
        if !std::thread::panicking() {
            self.is_back();
        }
    }
}

/// `ip link set NAME up` or `down`, without the tenth of a second that starting a program takes here.
fn set_up(name: &str, up: bool) {
    // SAFETY: plain system calls. `request` is a whole `ifreq`, whose name is filled in below with its NUL; the kernel reads
    // and writes no more than that, and the descriptor is ours.
    unsafe {
        let socket = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        assert!(socket >= 0, "{}", std::io::Error::last_os_error());
        let socket = OwnedFd::from_raw_fd(socket);
        let mut request: libc::ifreq = std::mem::zeroed();
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        let said = libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFFLAGS, &mut request);
        assert!(said == 0, "{name}: {}", std::io::Error::last_os_error());
        let flag = libc::IFF_UP as libc::c_short;
        let flags = request.ifr_ifru.ifru_flags;
        request.ifr_ifru.ifru_flags = if up { flags | flag } else { flags & !flag };
        let said = libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &request);
        assert!(said == 0, "{name}: {}", std::io::Error::last_os_error());
    }
}
