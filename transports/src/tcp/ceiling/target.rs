//! The target's side of the bare loop.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;

use super::initiate::touch;
use super::{
    CPU_TIME, CPU_TIME_BYTES, HELLO_BYTES, Idle, MAGIC, NAME_MAX, Wait, broken, cpu_time, refused, wait,
};
use crate::memory::Memory;
use crate::tcp::SEND_BYTES;
use crate::tcp::frame::{self, Answer, COUNT_MAX, DESCRIPTOR_BYTES, Descriptor, HEAD_BYTES, Kind};
use crate::tcp::inbox::{Inbox, Received};
use crate::tcp::settings::Settings;
use crate::tcp::socket;
use crate::tcp::vector::Vector;
use crate::wr::Op;

/// Bytes of requests in place that are answered although more of their frame is coming.
const DUE_BYTES: u64 = 1 << 20;
/// Largest working set a target makes for an initiator.
const WORKING_SET_MAX: u64 = 1 << 40;

/// Serves one run: accepts its lanes, answers until the initiator closes them, and tells the payload bytes.
///
/// # Errors
/// The system's reason; `InvalidData` when an initiator breaks the protocol.
pub fn serve(listener: &TcpListener) -> io::Result<u64> {
    let (first, how, lanes, working_set) = accept(listener)?;
    let mut memory = Memory::allocate(working_set).map_err(refused)?;
    touch(&mut memory)?;
    let mut all = vec![Lane::new(first)?];
    for _ in 1..lanes {
        all.push(Lane::new(accept(listener)?.0)?);
    }
    for lane in &mut all {
        // Ready, with every page mapped: now the initiator's clock may start.
        lane.stream.write_all(&[1])?;
    }
    let (mut bytes, mut idle) = (0, Idle::default());
    while !all.is_empty() {
        let mut progress = false;
        for lane in &mut all {
            progress |= lane.turn(&memory, &mut bytes)?;
        }
        let lanes = all.len();
        all.retain(|l| !l.closed);
        progress |= all.len() < lanes;
        if progress {
            idle = Idle::default();
        } else {
            wait(how, &mut idle, all.iter().map(|l| (&l.stream, l.blocked)))?;
            all.iter_mut().for_each(|l| l.blocked = false);
        }
    }
    Ok(bytes)
}

/// Accepts a lane: its socket, how to wait, how many lanes there are, and the working set.
fn accept(listener: &TcpListener) -> io::Result<(TcpStream, Wait, u16, u64)> {
    let (mut stream, _) = listener.accept()?;
    let mut hello = [0; HELLO_BYTES];
    stream.read_exact(&mut hello)?;
    let name_bytes = u32::from_le_bytes([hello[12], hello[13], hello[14], hello[15]]) as usize;
    let mut word = [0; 8];
    word.copy_from_slice(&hello[16..]);
    let working_set = u64::from_le_bytes(word);
    if hello[..8] != MAGIC || name_bytes > NAME_MAX || working_set > WORKING_SET_MAX {
        return Err(broken("not a ceiling initiator"));
    }
    let mut name = vec![0; name_bytes];
    stream.read_exact(&mut name)?;
    let name = String::from_utf8(name).map_err(|_| broken("not a ceiling initiator"))?;
    let settings = Settings { congestion: (!name.is_empty()).then_some(name), ..Settings::default() };
    socket::connected(&stream, &settings).map_err(refused)?;
    let how = Wait::from_wire(u16::from_le_bytes([hello[10], hello[11]]));
    Ok((stream, how, u16::from_le_bytes([hello[8], hello[9]]), working_set))
}

struct Lane {
    stream: TcpStream,
    inbox: Inbox,
    descriptors: [Descriptor; COUNT_MAX],
    count: usize,
    next: usize,
    filled: u64,
    /// Requests in place and not answered, their bytes, and whether a frame of them is whole.
    done: Vec<Descriptor>,
    pending: u64,
    whole: bool,
    head: Box<[u8; frame::ANSWERS_BYTES_MAX]>,
    /// The CPU time that was told last.
    cpu_ns: Box<[u8; CPU_TIME_BYTES as usize]>,
    vector: Vector,
    blocked: bool,
    closed: bool,
}

impl Lane {
    fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream,
            inbox: Inbox::new(COUNT_MAX),
            descriptors: [Descriptor::default(); COUNT_MAX],
            count: 0,
            next: 0,
            filled: 0,
            done: Vec::with_capacity(COUNT_MAX),
            pending: 0,
            whole: false,
            head: Box::new([0; frame::ANSWERS_BYTES_MAX]),
            cpu_ns: Box::default(),
            vector: Vector::with_capacity(1 + COUNT_MAX),
            blocked: false,
            closed: false,
        })
    }

    fn turn(&mut self, memory: &Memory, bytes: &mut u64) -> io::Result<bool> {
        // What a full socket left undone comes first: payload must not go behind bytes that wait in the buffer.
        if self.blocked || (!self.vector.is_empty() && !self.send()?) || !self.digest(memory, bytes)? {
            return Ok(false);
        }
        let mut filled = self.filled;
        for d in self.descriptors[self.next..self.count].iter().filter(|d| d.op == Op::Write) {
            let at = memory.ptr().wrapping_add((d.offset + filled) as usize);
            self.inbox.pieces().push(at, (d.length - filled) as usize);
            filled = 0;
        }
        // SAFETY: the pieces lie in the working set: `parse` has checked them.
        let received = unsafe { self.inbox.receive(self.stream.as_fd()) };
        self.closed = matches!(received, Received::Closed(_));
        self.digest(memory, bytes)?;
        Ok(received != Received::Nothing && !self.closed)
    }

    /// Answers what has come; `false` when the socket is full.
    fn digest(&mut self, memory: &Memory, bytes: &mut u64) -> io::Result<bool> {
        while self.place(memory)? {
            let descriptor = self.descriptors[self.next];
            *bytes += descriptor.length;
            self.pending += descriptor.length;
            self.done.push(descriptor);
            self.next += 1;
            self.whole |= self.next == self.count;
            // Large ones go one by one, to keep the initiator's window open.
            let due = self.done.len() == COUNT_MAX || self.pending >= DUE_BYTES;
            if due && !self.answer(memory)? {
                return Ok(false);
            }
        }
        // What came together is answered together, once its frame is whole.
        if self.whole { self.answer(memory) } else { Ok(true) }
    }

    /// Whether the request at hand is in place, reading the next frame's head when there is none.
    fn place(&mut self, memory: &Memory) -> io::Result<bool> {
        if self.next == self.count && !self.parse(memory)? {
            return Ok(false);
        }
        let d = self.descriptors[self.next];
        if d.op == Op::Write {
            let at = memory.ptr().wrapping_add((d.offset + self.filled) as usize);
            // SAFETY: `parse` has checked the range.
            self.filled += unsafe { self.inbox.take(Some(at), d.length - self.filled) };
            if self.filled < d.length {
                return Ok(false);
            }
        }
        self.filled = 0;
        Ok(true)
    }

    fn parse(&mut self, memory: &Memory) -> io::Result<bool> {
        let bytes = self.inbox.bytes();
        if bytes.len() < HEAD_BYTES {
            return Ok(false);
        }
        let violation = |v: frame::Violation| broken(&v.to_string());
        let count = frame::head(bytes, Kind::Request, COUNT_MAX).map_err(violation)?;
        let whole = HEAD_BYTES + count * DESCRIPTOR_BYTES;
        if bytes.len() < whole {
            return Ok(false);
        }
        for (i, d) in self.descriptors[..count].iter_mut().enumerate() {
            *d = frame::descriptor(bytes, i).map_err(violation)?;
            let clock = d.region == CPU_TIME && d.op == Op::Read && d.length == CPU_TIME_BYTES;
            if !clock && d.offset.checked_add(d.length).is_none_or(|end| end > memory.len()) {
                return Err(broken("a request outside the working set"));
            }
        }
        self.inbox.consume(whole);
        (self.count, self.next, self.filled) = (count, 0, 0);
        Ok(true)
    }

    /// Answers what is in place and not answered; `false` when the socket is full.
    fn answer(&mut self, memory: &Memory) -> io::Result<bool> {
        self.vector.clear();
        self.vector.push(self.head.as_mut_ptr(), HEAD_BYTES + self.done.len() * frame::ANSWER_BYTES);
        frame::put_head(&mut self.head[..], Kind::Answer, self.done.len());
        for (i, d) in self.done.drain(..).enumerate() {
            let length = if d.op == Op::Read { d.length } else { 0 };
            frame::put_answer(&mut self.head[..], i, &Answer { tag: d.tag, refusal: None, length });
            let at = match d.region {
                CPU_TIME => {
                    *self.cpu_ns = u64::try_from(cpu_time().as_nanos()).unwrap_or(u64::MAX).to_le_bytes();
                    self.cpu_ns.as_mut_ptr()
                }
                _ => memory.ptr().wrapping_add(d.offset as usize),
            };
            self.vector.push(at, length as usize);
        }
        (self.pending, self.whole) = (0, false);
        self.send()
    }

    /// Sends what is left of an answer frame; `false` when the socket is full.
    fn send(&mut self) -> io::Result<bool> {
        while !self.vector.is_empty() {
            // SAFETY: the head and the working set live as long as the run.
            match unsafe { self.vector.send(self.stream.as_fd(), SEND_BYTES) } {
                Ok(_) => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    self.blocked = true;
                    return Ok(false);
                }
                Err(e) => return Err(e),
            }
        }
        Ok(true)
    }
}
