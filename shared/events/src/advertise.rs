//! A broker that gives another address than its own to those who ask where it is.
//!
//! Kafka's clients ask any broker for the addresses of all, and then go there. The mock cluster can only name the port
//! that it listens on, so whatever is put in front of it would be walked around. Here its answers are changed on their
//! way: host and port stand in them as the host's bytes and four bytes of port, in every version of the protocol, and
//! another port takes no more room. Answers are frames with their length in front, so an address is never cut in two.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Where the address stands in an answer, and what stands there instead.
#[derive(Debug, Clone)]
pub struct Advertised {
    own: Vec<u8>,
    other: Vec<u8>,
}

/// More than any answer has; a length beyond it is none.
const LONGEST_FRAME: usize = 256 << 20;

impl Advertised {
    /// `None` if `own` is no `host:port`.
    #[must_use]
    pub fn new(own: &str, port: u16) -> Option<Self> {
        let (host, own_port) = own.rsplit_once(':')?;
        let written = |port: u16| [host.as_bytes(), &u32::from(port).to_be_bytes()].concat();
        Some(Self { own: written(own_port.parse().ok()?), other: written(port) })
    }

    fn rewrite(&self, frame: &mut [u8]) {
        let mut from = 0;
        while let Some(at) = frame[from..].windows(self.own.len()).position(|window| window == self.own) {
            let found = from + at;
            from = found + self.own.len();
            frame[found..from].copy_from_slice(&self.other);
        }
    }

    /// Copies answers until their end.
    pub async fn copy(
        &self,
        from: &mut (impl AsyncRead + Unpin),
        to: &mut (impl AsyncWrite + Unpin),
    ) -> io::Result<()> {
        let mut frame = Vec::new();
        loop {
            let mut length = [0; 4];
            match from.read_exact(&mut length).await {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return to.shutdown().await,
                Err(error) => return Err(error),
            }
            let size = u32::from_be_bytes(length) as usize;
            if size > LONGEST_FRAME {
                return Err(io::ErrorKind::InvalidData.into());
            }
            frame.clear();
            frame.resize(size, 0);
            from.read_exact(&mut frame).await?;
            self.rewrite(&mut frame);
            to.write_all(&length).await?;
            to.write_all(&frame).await?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(body: &[u8]) -> Vec<u8> {
        [&u32::try_from(body.len()).unwrap().to_be_bytes()[..], body].concat()
    }

    fn named(host: &[u8], port: u16) -> Vec<u8> {
        [b"\x00\x09", host, &u32::from(port).to_be_bytes()].concat()
    }

    #[tokio::test]
    async fn every_place_that_names_the_broker_names_the_other_port_and_nothing_else_changes() {
        let (own, other) = (named(b"127.0.0.1", 40_001), named(b"127.0.0.1", 8508));
        let rest = [&named(b"127.0.0.1", 40_002)[..], b"127.0.0.1", b"\x00\x00\x9c"].concat();
        let answers = |address: &[u8]| {
            [frame(&[address, &rest, address].concat()), frame(b""), frame(&[b"1", address].concat())].concat()
        };
        let mut out = Vec::new();
        let advertised = Advertised::new("127.0.0.1:40001", 8508).unwrap();
        advertised.copy(&mut answers(&own).as_slice(), &mut out).await.unwrap();
        assert_eq!(out, answers(&other));
    }

    #[tokio::test]
    async fn an_answer_that_ends_with_the_beginning_of_the_address_is_not_held_back() {
        let (mut broker, mut from) = tokio::io::duplex(1024);
        let (mut to, mut client) = tokio::io::duplex(1024);
        tokio::spawn(async move { Advertised::new("127.0.0.1:1", 2).unwrap().copy(&mut from, &mut to).await });
        let answer = frame(b"x127.0.0.1");
        broker.write_all(&answer).await.unwrap();
        let mut got = vec![0; answer.len()];
        client.read_exact(&mut got).await.unwrap();
        assert_eq!(got, answer);
    }

    #[test]
    fn what_is_no_address_cannot_be_advertised() {
        assert!(Advertised::new("127.0.0.1", 1).is_none());
        assert!(Advertised::new("127.0.0.1:kafka", 1).is_none());
    }
}
