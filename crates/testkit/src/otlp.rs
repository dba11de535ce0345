//! An OpenTelemetry collector over HTTP, and a Protocol Buffers parser for its requests.
//!
//! The parser knows only field numbers, so that it shares no code with the exporter under test.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How the collector responds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CollectorBehavior {
    /// Accepts them.
    Accept,
    /// Accepts all but two records of each request, because they are `bad`.
    AcceptPartly,
    /// Responds with this status.
    Status(u16),
    /// Responds after this delay.
    Slow(Duration),
    /// Reads requests but never responds.
    Mute,
}

/// An export response with `partial_success`: 2 rejected records and the message `bad`.
const PARTIAL_SUCCESS: &[u8] = b"\x0a\x07\x08\x02\x12\x03bad";

/// A received request.
#[derive(Debug, Clone)]
pub struct ReceivedExport {
    /// The path, such as `/v1/traces`.
    pub path: String,
    /// The headers, as lowercase lines.
    pub head: String,
    /// The body.
    pub body: Vec<u8>,
}

/// A collector that runs until the end of the test.
pub struct Collector {
    address: SocketAddr,
    received: Arc<Mutex<Vec<ReceivedExport>>>,
}

impl Collector {
    /// Starts it on a free loopback port.
    ///
    /// # Errors
    /// Returns an error if there is no free port.
    pub fn start(conduct: CollectorBehavior) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let received: Arc<Mutex<Vec<ReceivedExport>>> = Arc::default();
        let requests = Arc::clone(&received);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let requests = Arc::clone(&requests);
                std::thread::spawn(move || serve(stream, conduct, &requests));
            }
        });
        Ok(Self { address, received })
    }

    /// Returns the base URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the requests so far.
    pub fn requests(&self) -> Vec<ReceivedExport> {
        self.received.lock().map(|received| received.clone()).unwrap_or_default()
    }

    /// Returns the items of all requests for a path: the spans for `/v1/traces`, and so on. Each
    /// request holds resources that hold scopes that hold items.
    pub fn items(&self, path: &str) -> Vec<WireMessage> {
        let received = self.requests().into_iter().filter(|request| request.path == path);
        let requests = received.map(|request| WireMessage::parse(&request.body));
        requests
            .flat_map(|request| request.messages(1))
            .flat_map(|resource| resource.messages(2))
            .flat_map(|scope| scope.messages(2))
            .collect()
    }

    /// Returns the attributes of the first resource.
    pub fn resource(&self) -> Vec<(String, String)> {
        let first = self.requests().into_iter().next();
        let first = first.map(|request| WireMessage::parse(&request.body));
        let resource = first.and_then(|it| it.messages(1).first()?.messages(1).first().cloned());
        resource.map(|resource| resource.attributes(1)).unwrap_or_default()
    }
}

fn serve(
    stream: TcpStream,
    conduct: CollectorBehavior,
    requests: &Mutex<Vec<ReceivedExport>>,
) -> Option<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if stream.read_line(&mut head).ok()? == 0 {
                return None;
            }
        }
        let path = head.split(' ').nth(1)?.to_owned();
        let head = head.to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length?.trim().parse().ok()?];
        stream.read_exact(&mut body).ok()?;
        requests.lock().ok()?.push(ReceivedExport { path, head, body });
        let status = match conduct {
            CollectorBehavior::Mute => {
                std::thread::sleep(Duration::from_secs(60));
                return None;
            }
            CollectorBehavior::Slow(delay) => {
                std::thread::sleep(delay);
                200
            }
            CollectorBehavior::Accept | CollectorBehavior::AcceptPartly => 200,
            CollectorBehavior::Status(status) => status,
        };
        let body = match conduct {
            CollectorBehavior::AcceptPartly => PARTIAL_SUCCESS,
            _ => b"",
        };
        let answer = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n", body.len());
        stream.get_mut().write_all(&[answer.as_bytes(), body].concat()).ok()?;
    }
}

/// A Protocol Buffers message: its fields in order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WireMessage {
    fields: Vec<(u64, WireField)>,
}

/// The value of a field, by its wire type.
#[derive(Debug, Clone, PartialEq)]
pub enum WireField {
    /// An integer, a boolean, or an enumeration value.
    Varint(u64),
    /// 64 bits.
    Fixed64(u64),
    /// 32 bits.
    Fixed32(u32),
    /// A string, bytes, a message, or packed numbers.
    Bytes(Vec<u8>),
}

impl WireMessage {
    /// Parses a message; an invalid one has no fields.
    pub fn parse(bytes: &[u8]) -> Self {
        Self::try_parse(bytes).unwrap_or_default()
    }

    fn try_parse(mut bytes: &[u8]) -> Option<Self> {
        let mut fields = Vec::new();
        while !bytes.is_empty() {
            let key = varint(&mut bytes)?;
            let field = match key & 7 {
                0 => WireField::Varint(varint(&mut bytes)?),
                1 => WireField::Fixed64(u64::from_le_bytes(take(&mut bytes, 8)?.try_into().ok()?)),
                2 => {
                    let length = usize::try_from(varint(&mut bytes)?).ok()?;
                    WireField::Bytes(take(&mut bytes, length)?.to_vec())
                }
                5 => WireField::Fixed32(u32::from_le_bytes(take(&mut bytes, 4)?.try_into().ok()?)),
                _ => return None,
            };
            fields.push((key >> 3, field));
        }
        Some(Self { fields })
    }

    fn all(&self, number: u64) -> impl Iterator<Item = &WireField> {
        self.fields.iter().filter(move |(it, _)| *it == number).map(|(_, field)| field)
    }

    /// Returns the messages of a field.
    pub fn messages(&self, number: u64) -> Vec<Self> {
        let bytes = self.all(number).filter_map(|field| match field {
            WireField::Bytes(bytes) => Some(bytes),
            _ => None,
        });
        bytes.map(|bytes| Self::parse(bytes)).collect()
    }

    /// Returns the bytes of a field; empty if it is missing.
    pub fn bytes(&self, number: u64) -> Vec<u8> {
        match self.all(number).next() {
            Some(WireField::Bytes(bytes)) => bytes.clone(),
            _ => Vec::new(),
        }
    }

    /// Returns the text of a field.
    pub fn text(&self, number: u64) -> String {
        String::from_utf8_lossy(&self.bytes(number)).into_owned()
    }

    /// Returns the number of a field; 0 if it is missing.
    pub fn number(&self, number: u64) -> u64 {
        match self.all(number).next() {
            Some(WireField::Varint(value) | WireField::Fixed64(value)) => *value,
            Some(WireField::Fixed32(value)) => u64::from(*value),
            _ => 0,
        }
    }

    /// Returns the floating-point number of a field.
    pub fn float(&self, number: u64) -> f64 {
        f64::from_bits(self.number(number))
    }

    /// Returns the attributes of a field (`KeyValue`), with values as text.
    pub fn attributes(&self, number: u64) -> Vec<(String, String)> {
        let pairs = self.messages(number).into_iter();
        pairs.map(|pair| (pair.text(1), value(&pair.messages(2)))).collect()
    }
}

/// Formats an `AnyValue` as text.
fn value(found: &[WireMessage]) -> String {
    let Some((number, field)) = found.first().and_then(|value| value.fields.first()) else {
        return String::new();
    };
    match (number, field) {
        (1, WireField::Bytes(text)) => String::from_utf8_lossy(text).into_owned(),
        (2, WireField::Varint(flag)) => (*flag == 1).to_string(),
        (3, WireField::Varint(number)) => number.cast_signed().to_string(),
        (4, WireField::Fixed64(bits)) => f64::from_bits(*bits).to_string(),
        (5, WireField::Bytes(bytes)) => {
            let values = WireMessage::parse(bytes).messages(1);
            let values: Vec<String> = values.into_iter().map(|it| value(&[it])).collect();
            values.join(",")
        }
        other => format!("{other:?}"),
    }
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = take(bytes, 1)?[0];
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

fn take<'a>(bytes: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (field, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(field)
}
