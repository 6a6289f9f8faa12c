//! How a peer is reached: at addresses of its listener, by a name that the directory knows, or by one that another engine's
//! protocol knows.
//! Deliberately only told apart here: what a name means is found by whoever dials, and may mean something else each time.

use pipeline_configs::{peers, suggest};
use pipeline_transports::control::Address;

use super::error::Error;
use crate::world::World;

/// See the file's head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// A node of this kind: at the first of these addresses that answers.
    Addresses(Vec<Address>),
    /// A node of this kind: where the directory says that the node of this name is. Only where there is a directory.
    Named(String),
    /// A peer that runs another engine.
    Foreign(Foreigner),
}

/// A peer that runs another engine, and whose protocol it speaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Foreigner {
    /// Index in [`World::transports`].
    pub(super) transport: u16,
    /// What it is called there.
    pub(super) name: String,
}

impl Reach {
    /// As `[peers]` says it: addresses, or one `TRANSPORT://NAME`.
    pub(super) fn of(world: &World, texts: &[String]) -> Result<Self, Error> {
        match texts {
            [one] => Self::parse(world, one),
            several => {
                let parsed: Result<Vec<_>, _> = several.iter().map(|a| Address::parse(a)).collect();
                Ok(Self::Addresses(parsed?))
            }
        }
    }

    /// As the label says it by which a peer is opened that `[peers]` does not name.
    pub(super) fn parse(world: &World, text: &str) -> Result<Self, Error> {
        let Some((transport, name)) = peers::foreign(text) else {
            return Ok(Self::Addresses(vec![Address::parse(text)?]));
        };
        let speaking = || world.transports.iter().filter(|t| t.transport.foreign().is_some());
        let declared = world.transports.iter().position(|t| t.name == transport);
        let judged = |at: usize| world.transports[at].transport.foreign().map_or(Ok(()), |f| f.judge(name));
        let help = match declared {
            Some(at) if world.transports[at].transport.foreign().is_none() => {
                format!("transport `{transport}` speaks to nodes of this kind only; write `host:port`")
            }
            Some(_) if !peers::is_foreign_name(name) => {
                format!("names have 1 to {} bytes and no spaces", peers::MAX_FOREIGN)
            }
            Some(at) => match judged(at) {
                Ok(()) => {
                    return Ok(Self::Foreign(Foreigner { transport: at as u16, name: name.to_owned() }));
                }
                Err(help) => help,
            },
            None if speaking().next().is_none() => {
                format!("no transport `{transport}` is declared, and none that speaks to another engine")
            }
            None => {
                let names = speaking().map(|t| t.name.as_str());
                suggest::help(transport, "transports that speak to another engine", names)
            }
        };
        Err(Error::NoName { label: text.to_owned(), help })
    }
}
