//! Standard input and output as one byte stream.
//!
//! Standard input has a thread of its own: when it ends, the process ends at once, whatever standard output is doing. A
//! sidecar that hangs in a write to a harness that has gone would live for ever.

use std::io::Read;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::io::StreamReader;

/// Standard input and output as one byte stream. Ends the process when standard input ends.
pub(crate) fn stream() -> impl AsyncRead + AsyncWrite + Send + Unpin + 'static {
    // What may wait here is bounded by HTTP/2's windows; the harness is trusted to keep to them.
    let (sender, receiver) = tokio::sync::mpsc::unbounded_channel::<std::io::Result<Bytes>>();
    std::thread::spawn(move || {
        let mut input = std::io::stdin().lock();
        let mut buffer = vec![0; 64 * 1024];
        loop {
            match input.read(&mut buffer) {
                Ok(0) => std::process::exit(0),
                Ok(length) => {
                    let _ = sender.send(Ok(Bytes::copy_from_slice(&buffer[..length])));
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => std::process::exit(1),
            }
        }
    });
    let chunks = Box::pin(futures_util::stream::unfold(receiver, |mut receiver| async move {
        receiver.recv().await.map(|chunk| (chunk, receiver))
    }));
    tokio::io::join(StreamReader::new(chunks), tokio::io::stdout())
}
