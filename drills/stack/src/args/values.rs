//! What stands behind an option, read and checked.

use std::str::FromStr;

use contracts::service::{MAX_REPLICAS, Service};

use crate::layout::{MAX_PORT_BASE, MIN_PORT_BASE};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kafka {
    Embedded,
    Docker,
    External(String),
}

impl Kafka {
    pub(super) fn as_text(&self) -> &str {
        match self {
            Self::Embedded => "embedded",
            Self::Docker => "docker",
            Self::External(bootstrap) => bootstrap,
        }
    }
}

impl FromStr for Kafka {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "embedded" => Ok(Self::Embedded),
            "docker" => Ok(Self::Docker),
            _ => match text.rsplit_once(':') {
                Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => {
                    Ok(Self::External(text.to_owned()))
                }
                _ => Err("expected HOST:PORT or docker".to_owned()),
            },
        }
    }
}

/// An environment variable and its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    pub name: String,
    pub value: String,
}

impl FromStr for Setting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((name, value)) if !name.is_empty() => Ok(Self { name: name.to_owned(), value: value.to_owned() }),
            _ => Err("expected NAME=VALUE, for example LOG_LEVEL=debug".to_owned()),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replicas {
    pub service: Service,
    pub count: u16,
}

impl FromStr for Replicas {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (service, count) = text.split_once('=').ok_or("expected SERVICE=COUNT, for example order=2")?;
        let service = service.parse::<Service>().map_err(|e| e.to_string())?;
        if service == Service::Console {
            return Err("there is one console".to_owned());
        }
        match count.parse() {
            Ok(count) if (1..=MAX_REPLICAS).contains(&count) => Ok(Self { service, count }),
            _ => Err(format!("the count is a number from 1 to {MAX_REPLICAS}")),
        }
    }
}

/// One process, or all replicas of a name where no number is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub name: String,
    pub replica: Option<u16>,
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None => Ok(Self { name: text.to_owned(), replica: None }),
            Some((name, k)) => match k.parse() {
                Ok(k) => Ok(Self { name: name.to_owned(), replica: Some(k) }),
                Err(_) => Err("expected NAME or NAME:NUMBER".to_owned()),
            },
        }
    }
}

pub(super) fn port_base(text: &str) -> Result<u16, String> {
    match text.parse() {
        Ok(base) if (MIN_PORT_BASE..=MAX_PORT_BASE).contains(&base) => Ok(base),
        _ => Err(format!("a port base is a number from {MIN_PORT_BASE} to {MAX_PORT_BASE}")),
    }
}
