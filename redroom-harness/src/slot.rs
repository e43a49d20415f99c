//! Slots: where runs live. A slot is opened once and reused; its number is held only while a run is live in it.

mod lock;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redroom_sidecar::Lease as Term;
use redroom_sidecar::wire::Generation;
use tokio::sync::{OwnedSemaphorePermit, RwLock, RwLockReadGuard, Semaphore};

use crate::backend::{Backend, Slot, SlotSpec};
use crate::error::{Error, Result};
use crate::link::{Link, Unattributed};

pub(crate) use lock::{SlotLock, SlotLocks};

/// The most runs that may be live at once on a machine.
pub(crate) const MAX_PARALLEL: u32 = 245;

/// The slots of one session.
pub(crate) struct Pool {
    backend: Arc<dyn Backend>,
    session: String,
    locks: SlotLocks,
    parallel: u32,
    term: Term,
    permits: Arc<Semaphore>,
    unattributed: Unattributed,
    idle: Mutex<HashMap<u32, LiveSlot>>,
    /// Held for reading by whoever is making something in the backend: what is half made cannot be taken back.
    making: RwLock<()>,
}

/// An open slot: its namespace and the link to its sidecar.
pub(crate) struct LiveSlot {
    pub(crate) slot: Box<dyn Slot>,
    pub(crate) link: Link,
    generation: Generation,
}

/// A slot for one run, and the number that goes with it.
pub(crate) struct Lease {
    pub(crate) slot: LiveSlot,
    lock: SlotLock,
    _permit: OwnedSemaphorePermit,
}

impl Lease {
    /// The slot's number, from 0.
    pub(crate) fn number(&self) -> u32 {
        self.lock.number()
    }
}

impl Pool {
    pub(crate) fn new(
        backend: Arc<dyn Backend>,
        session: String,
        locks: SlotLocks,
        parallel: u32,
        term: Term,
        unattributed: Unattributed,
    ) -> Self {
        let permits = Arc::new(Semaphore::new(parallel as usize));
        Pool {
            backend,
            session,
            locks,
            parallel,
            term,
            permits,
            unattributed,
            idle: Mutex::default(),
            making: RwLock::default(),
        }
    }

    /// Waits for a free number and gives the slot that goes with it, opened if need be, for a new generation.
    pub(crate) async fn lease(&self) -> Result<Lease> {
        let permit = self.permits.clone().acquire_owned().await.map_err(|_| stopped())?;
        let wanted: Vec<u32> = self.idle().keys().copied().collect();
        let lock = self.locks.acquire(self.parallel, &wanted).await?;
        let idle = self.idle().remove(&lock.number());
        let mut slot = match idle {
            Some(slot) if slot.link.alive() => slot,
            dead => {
                if let Some(dead) = dead {
                    tracing::warn!(
                        slot = lock.number(),
                        words = dead.slot.last_words(),
                        "a sidecar has died; its slot is opened anew"
                    );
                    dead.close().await;
                }
                self.open(lock.number()).await?
            }
        };
        slot.generation = Generation(slot.generation.0 + 1);
        Ok(Lease { slot, lock, _permit: permit })
    }

    /// Takes a slot back, for the next run if it is still good.
    pub(crate) async fn release(&self, lease: Lease, reusable: bool) {
        let Lease { slot, lock, _permit } = lease;
        if reusable && slot.link.alive() && !self.permits.is_closed() {
            self.idle().insert(lock.number(), slot);
        } else {
            slot.close().await;
        }
    }

    /// To be held while something is made in the backend.
    ///
    /// # Errors
    ///
    /// `redroom_stopped` after [`shut`](Self::shut).
    pub(crate) async fn making(&self) -> Result<RwLockReadGuard<'_, ()>> {
        let making = self.making.read().await;
        if self.permits.is_closed() { Err(stopped()) } else { Ok(making) }
    }

    /// Lets nothing more be made, and waits for what is being made.
    pub(crate) async fn shut(&self) {
        self.permits.close();
        drop(self.making.write().await);
    }

    /// Closes the slots that nobody lives in.
    pub(crate) async fn close(&self) {
        let idle: Vec<LiveSlot> = self.idle().drain().map(|(_, slot)| slot).collect();
        futures_util::future::join_all(idle.into_iter().map(LiveSlot::close)).await;
    }

    async fn open(&self, number: u32) -> Result<LiveSlot> {
        let _making = self.making().await?;
        let spec = SlotSpec { session: self.session.clone(), number, lease: self.term };
        let opened = self.backend.open_slot(spec).await?;
        match Link::open(opened.link, self.term, self.unattributed.clone()).await {
            Ok(link) => Ok(LiveSlot { slot: opened.slot, link, generation: Generation(0) }),
            Err(error) => {
                let words = opened.slot.last_words();
                close(&*opened.slot).await;
                Err(match words.trim() {
                    "" => error,
                    words => error.map_detail(|detail| format!("{detail}; the sidecar's last words: {words}")),
                })
            }
        }
    }

    fn idle(&self) -> MutexGuard<'_, HashMap<u32, LiveSlot>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LiveSlot {
    /// The generation of the run that lives here.
    pub(crate) fn generation(&self) -> Generation {
        self.generation
    }

    async fn close(self) {
        close(&*self.slot).await;
    }
}

async fn close(slot: &dyn Slot) {
    if let Err(error) = slot.close().await {
        tracing::warn!(%error, "a slot could not be removed; the next start will sweep it");
    }
}

pub(crate) fn stopped() -> Error {
    Error::redroom("redroom_stopped", "this redroom has been stopped; start a new one for further runs")
}
