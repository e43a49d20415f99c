//! Reads the headers of an ELF executable: for which machine it is, what loads it, how much of the file is ever loaded.
//!
//! Pure functions over bytes. It knows nothing of containers, and only of the two machines that redroom supports.

use std::fmt;
use std::ops::Range;

use serde::{Deserialize, Serialize};

/// A machine that an engine may run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Machine {
    X86_64,
    Aarch64,
}

impl Machine {
    /// By the name that the Engine API gives it.
    pub(crate) fn named(name: &str) -> Option<Machine> {
        match name {
            "amd64" | "x86_64" => Some(Machine::X86_64),
            "arm64" | "aarch64" => Some(Machine::Aarch64),
            _ => None,
        }
    }

    /// `e_machine` of its executables.
    pub(crate) const fn code(self) -> u16 {
        match self {
            Machine::X86_64 => 62,
            Machine::Aarch64 => 183,
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Machine::X86_64 => "x86_64",
            Machine::Aarch64 => "aarch64",
        })
    }
}

/// Why some bytes are not an executable that we can use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ElfError {
    #[error("it is no ELF file")]
    NotElf,
    #[error("it is no 64-bit little-endian ELF file")]
    OtherClass,
    #[error("it is made for machine number {0}")]
    OtherMachine(u16),
    #[error("its headers point outside of the file")]
    Truncated,
}

const HEADER: usize = 64;
const PROGRAM_HEADER: usize = 56;
const SECTION_TABLE_OFFSET: Range<usize> = 0x28..0x30;
/// `e_shentsize`, `e_shnum`, `e_shstrndx`.
const SECTION_TABLE_SIZES: Range<usize> = 0x3a..0x40;

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const PT_INTERP: u32 = 3;
const DT_STRTAB: u64 = 5;
const DT_SONAME: u64 = 14;

/// An ELF file whose program headers have been read.
#[derive(Debug)]
pub(crate) struct Elf<'a> {
    bytes: &'a [u8],
    machine: Machine,
    segments: Vec<Segment>,
}

#[derive(Debug)]
struct Segment {
    kind: u32,
    offset: u64,
    address: u64,
    size: u64,
}

impl<'a> Elf<'a> {
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, ElfError> {
        if bytes.get(..4) != Some(b"\x7fELF") {
            return Err(ElfError::NotElf);
        }
        if bytes.get(4..6) != Some(&[2, 1]) {
            return Err(ElfError::OtherClass);
        }
        let machine = match half(bytes, 0x12)? {
            62 => Machine::X86_64,
            183 => Machine::Aarch64,
            other => return Err(ElfError::OtherMachine(other)),
        };
        let (table, entry, count) = (word(bytes, 0x20)?, half(bytes, 0x36)?, half(bytes, 0x38)?);
        if usize::from(entry) != PROGRAM_HEADER {
            return Err(ElfError::Truncated);
        }
        let segments = (0..u64::from(count))
            .map(|index| {
                let at = table.checked_add(index * PROGRAM_HEADER as u64).and_then(|at| usize::try_from(at).ok());
                let at = at.ok_or(ElfError::Truncated)?;
                let segment = Segment {
                    kind: u32::from_le_bytes(array(bytes, at)?),
                    offset: word(bytes, at + 8)?,
                    address: word(bytes, at + 16)?,
                    size: word(bytes, at + 32)?,
                };
                let end = segment.offset.checked_add(segment.size).ok_or(ElfError::Truncated)?;
                if end > bytes.len() as u64 { Err(ElfError::Truncated) } else { Ok(segment) }
            })
            .collect::<Result<_, _>>()?;
        Ok(Elf { bytes, machine, segments })
    }

    pub(crate) fn machine(&self) -> Machine {
        self.machine
    }

    /// The program that loads it; `None` for one that needs no loader.
    pub(crate) fn interpreter(&self) -> Option<&'a str> {
        let segment = self.segments.iter().find(|segment| segment.kind == PT_INTERP)?;
        let path = std::str::from_utf8(segment.of(self.bytes)).ok()?;
        Some(path.trim_end_matches('\0'))
    }

    /// The name that its users know it by, if it is a library.
    pub(crate) fn soname(&self) -> Option<&'a str> {
        let dynamic = self.segments.iter().find(|segment| segment.kind == PT_DYNAMIC)?.of(self.bytes);
        let value = |tag| {
            dynamic
                .chunks_exact(16)
                .map(|pair| (word(pair, 0).unwrap_or(0), word(pair, 8).unwrap_or(0)))
                .find_map(|(found, value)| (found == tag).then_some(value))
        };
        let name = self.offset(value(DT_STRTAB)?.checked_add(value(DT_SONAME)?)?)?;
        let name = self.bytes.get(name..)?;
        std::str::from_utf8(&name[..name.iter().position(|byte| *byte == 0)?]).ok()
    }

    /// The file without what is never loaded (section headers, symbols, debug information): it runs just the same, and a
    /// debug build shrinks to a tenth.
    pub(crate) fn loadable(&self) -> Vec<u8> {
        let end = self.segments.iter().map(|segment| segment.offset + segment.size).max().unwrap_or(0);
        let end = usize::try_from(end).map_or(self.bytes.len(), |end| end.max(HEADER));
        let mut bytes = self.bytes[..end].to_vec();
        bytes[SECTION_TABLE_OFFSET].fill(0);
        bytes[SECTION_TABLE_SIZES].fill(0);
        bytes
    }

    /// Where in the file that lies which is loaded at `address`.
    fn offset(&self, address: u64) -> Option<usize> {
        self.segments
            .iter()
            .filter(|segment| segment.kind == PT_LOAD)
            .find_map(|segment| {
                let within = address.checked_sub(segment.address)?;
                (within < segment.size).then_some(segment.offset + within)
            })
            .and_then(|offset| usize::try_from(offset).ok())
    }
}

impl Segment {
    /// Its bytes in the file; [`Elf::parse`] has seen that they are there.
    fn of<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[self.offset as usize..][..self.size as usize]
    }
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], ElfError> {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().ok_or(ElfError::Truncated)
}

fn half(bytes: &[u8], at: usize) -> Result<u16, ElfError> {
    array(bytes, at).map(u16::from_le_bytes)
}

fn word(bytes: &[u8], at: usize) -> Result<u64, ElfError> {
    array(bytes, at).map(u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn own_executable() -> Vec<u8> {
        std::fs::read("/proc/self/exe").unwrap()
    }

    #[test]
    fn the_running_executable_is_read() {
        let bytes = own_executable();
        let elf = Elf::parse(&bytes).unwrap();
        assert_eq!(Machine::named(std::env::consts::ARCH), Some(elf.machine()));
        if let Some(interpreter) = elf.interpreter() {
            assert!(std::path::Path::new(interpreter).is_absolute(), "{interpreter}");
        }
    }

    #[test]
    fn the_loadable_part_is_smaller_and_still_an_executable_for_the_same_loader() {
        let bytes = own_executable();
        let elf = Elf::parse(&bytes).unwrap();
        let cut = elf.loadable();
        assert!(cut.len() < bytes.len());
        let again = Elf::parse(&cut).unwrap();
        assert_eq!(again.interpreter(), elf.interpreter());
        assert_eq!(again.segments.len(), elf.segments.len());
    }

    #[test]
    fn the_loadable_part_runs() {
        let bytes = own_executable();
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        std::fs::write(&program, Elf::parse(&bytes).unwrap().loadable()).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&program, mode).unwrap();
        let output = std::process::Command::new(&program).arg("--list").output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stdout).contains("the_loadable_part_runs"));
    }

    #[test]
    fn a_library_tells_the_name_that_its_users_know() {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let Some(libc) =
            maps.lines().filter_map(|line| line.find('/').map(|at| &line[at..])).find(|path| path.contains("libc.so"))
        else {
            return;
        };
        let bytes = std::fs::read(libc).unwrap();
        assert!(Elf::parse(&bytes).unwrap().soname().unwrap().starts_with("libc.so"));
    }

    #[test]
    fn scripts_and_programs_of_other_systems_are_refused_by_name() {
        assert_eq!(Elf::parse(b"#!/bin/sh\n").unwrap_err(), ElfError::NotElf);
        assert_eq!(Elf::parse(b"\x7fELF\x01\x01").unwrap_err(), ElfError::OtherClass);
        let mut bytes = own_executable();
        bytes[0x12..0x14].copy_from_slice(&243_u16.to_le_bytes());
        assert_eq!(Elf::parse(&bytes).unwrap_err(), ElfError::OtherMachine(243));
        assert_eq!(Elf::parse(&own_executable()[..200]).unwrap_err(), ElfError::Truncated);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..400), head in any::<bool>()) {
            if head && bytes.len() >= HEADER {
                bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
                bytes[0x12..0x14].copy_from_slice(&62_u16.to_le_bytes());
                bytes[0x20..0x28].copy_from_slice(&64_u64.to_le_bytes());
                bytes[0x36..0x38].copy_from_slice(&56_u16.to_le_bytes());
                bytes[0x38..0x3a].copy_from_slice(&1_u16.to_le_bytes());
            }
            if let Ok(elf) = Elf::parse(&bytes) {
                let _ = (elf.interpreter(), elf.soname(), elf.loadable());
            }
        }
    }
}
