//! What is tried with any bytes as what comes in at Mooncake's handshake port, or as an answer of one: a message is read off
//! them, and its text as everything that it may be. Shared by libFuzzer and by the test that replays the corpus.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use pipeline_transports::mooncake::bodies::{self, Alive, Connection, Notify, RpcMeta};
use pipeline_transports::mooncake::descriptor::Descriptor;
use pipeline_transports::mooncake::handshake::Message;
use pipeline_transports::mooncake::name::HostPort;

/// Longest message that is read.
const MAX: u64 = 1 << 16;

/// Reads it.
///
/// # Panics
/// When something is wrong with the product: that is what it is for.
pub fn run(data: &[u8]) {
    let mut stream = data;
    let message = {
        let reading = pin!(Message::read(&mut stream, MAX));
        match reading.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(message) => message,
            Poll::Pending => panic!("bytes that are there are read at once"),
        }
    };
    let Ok(message) = message else { return text(data) };
    let used = data.len() - stream.len();
    assert_eq!(message.encode(), data[..used], "a message is written as it was read");
    text(&message.body);
}

/// Whatever is read of a text is written so that it reads back the same.
fn text(text: &[u8]) {
    if let Ok(read) = Descriptor::decode(text) {
        assert_eq!(Descriptor::decode(&read.encode_line()).as_ref(), Ok(&read));
        assert!(read.buffers_of("tcp").all(|buffer| buffer.addr.checked_add(buffer.length).is_some()));
    }
    if let Ok(read) = bodies::decode::<Connection>(text) {
        assert_eq!(bodies::decode(&bodies::encode(&read)), Ok(read));
    }
    if let Ok(read) = bodies::decode::<Notify>(text) {
        assert_eq!(bodies::decode(&bodies::encode(&read)), Ok(read));
    }
    if let Ok(read) = bodies::decode::<RpcMeta>(text) {
        assert_eq!(bodies::decode(&bodies::encode(&read)), Ok(read));
    }
    let _ = bodies::decode::<Alive>(text);
    if let Ok(name) = std::str::from_utf8(text)
        && let Ok(read) = HostPort::parse(name)
    {
        assert_eq!(HostPort::parse(&read.to_string()), Ok(read));
    }
}
