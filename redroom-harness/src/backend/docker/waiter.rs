//! Process 1 of an agent's container: it waits for the end of its standard input, and nothing else.
//!
//! Why not a program of the image: an agent that fills its memory gets the kernel to kill something, and whatever has the
//! most pages is taken. If that is process 1, the container is gone. This one has two pages. It runs as a user of its own,
//! so that `kill -9 -1` by the agent's user ends every process but it. It ignores `SIGCHLD`, so that the kernel reaps what
//! is orphaned to it. When the harness dies, the engine closes its standard input, and the container ends.
//!
//! The executable is put together here byte by byte: a compiler for each target, just for this, would be far more to trust.

use super::elf::Machine;

/// Where it lies in the sandbox.
pub(crate) const PATH: &str = "/.redroom-waiter";

/// Where it is loaded: page-aligned for pages of 4, 16 and 64 KiB.
const BASE: u64 = 0x40_0000;
const ELF_HEADER: u64 = 64;
const PROGRAM_HEADER: u64 = 56;

/// The whole executable.
pub(crate) fn executable(machine: Machine) -> Vec<u8> {
    let code = match machine {
        Machine::X86_64 => X86_64.to_vec(),
        Machine::Aarch64 => AARCH64.iter().flat_map(|instruction| instruction.to_le_bytes()).collect::<Vec<u8>>(),
    };
    let start = ELF_HEADER + PROGRAM_HEADER;
    let size = start + code.len() as u64 + SIGACTION.len() as u64;

    let mut file = Vec::with_capacity(size as usize);
    file.extend(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0"); // 64 bits, little-endian, version 1, System V
    file.extend(2_u16.to_le_bytes()); // ET_EXEC
    file.extend(machine.code().to_le_bytes());
    file.extend(1_u32.to_le_bytes()); // version
    file.extend((BASE + start).to_le_bytes()); // entry point
    file.extend(ELF_HEADER.to_le_bytes()); // program headers
    file.extend(0_u64.to_le_bytes()); // no section headers
    file.extend(0_u32.to_le_bytes()); // flags
    file.extend((ELF_HEADER as u16).to_le_bytes());
    file.extend((PROGRAM_HEADER as u16).to_le_bytes());
    file.extend(1_u16.to_le_bytes()); // one program header
    file.extend([0; 6]); // sizes and number of section headers

    file.extend(1_u32.to_le_bytes()); // PT_LOAD
    file.extend(5_u32.to_le_bytes()); // readable, executable
    file.extend(0_u64.to_le_bytes()); // offset in the file
    file.extend(BASE.to_le_bytes()); // virtual address
    file.extend(BASE.to_le_bytes()); // physical address
    file.extend(size.to_le_bytes()); // in the file
    file.extend(size.to_le_bytes()); // in memory
    file.extend(0x1_0000_u64.to_le_bytes()); // alignment

    file.extend(code);
    file.extend(SIGACTION);
    file
}

/// `struct sigaction` as the kernel reads it, straight behind the code: the handler is `SIG_IGN`, flags, restorer and mask are 0.
const SIGACTION: [u8; 32] = {
    let mut action = [0; 32];
    action[0] = 1;
    action
};

#[rustfmt::skip]
const X86_64: [u8; 63] = [
    // rt_sigaction(SIGCHLD, &action, NULL, 8)
    0xb8, 0x0d, 0x00, 0x00, 0x00,             //  0  mov  eax, 13
    0xbf, 0x11, 0x00, 0x00, 0x00,             //  5  mov  edi, 17
    0x48, 0x8d, 0x35, 0x2e, 0x00, 0x00, 0x00, // 10  lea  rsi, [rip + 46]     the action, at 63
    0x31, 0xd2,                               // 17  xor  edx, edx
    0x41, 0xba, 0x08, 0x00, 0x00, 0x00,       // 19  mov  r10d, 8
    0x0f, 0x05,                               // 25  syscall
    // again: read(0, stack, 128)
    0x31, 0xc0,                               // 27  xor  eax, eax
    0x31, 0xff,                               // 29  xor  edi, edi
    0x48, 0x8d, 0x74, 0x24, 0x80,             // 31  lea  rsi, [rsp - 128]
    0xba, 0x80, 0x00, 0x00, 0x00,             // 36  mov  edx, 128
    0x0f, 0x05,                               // 41  syscall
    0x48, 0x85, 0xc0,                         // 43  test rax, rax
    0x7f, 0xeb,                               // 46  jg   again               something came: not for us
    0x48, 0x83, 0xf8, 0xfc,                   // 48  cmp  rax, -4             EINTR
    0x74, 0xe5,                               // 52  je   again
    // exit_group(0)
    0x31, 0xff,                               // 54  xor  edi, edi
    0xb8, 0xe7, 0x00, 0x00, 0x00,             // 56  mov  eax, 231
    0x0f, 0x05,                               // 61  syscall
];

#[rustfmt::skip]
const AARCH64: [u32; 18] = [
    // rt_sigaction(SIGCHLD, &action, NULL, 8)
    0xd280_0220, //  0  mov  x0, #17
    0x1000_0221, //  4  adr  x1, action      at 72
    0xd280_0002, //  8  mov  x2, #0
    0xd280_0103, // 12  mov  x3, #8
    0xd280_10c8, // 16  mov  x8, #134
    0xd400_0001, // 20  svc  #0
    // again: read(0, stack, 128)
    0xd280_0000, // 24  mov  x0, #0
    0xd102_03e1, // 28  sub  x1, sp, #128
    0xd280_1002, // 32  mov  x2, #128
    0xd280_07e8, // 36  mov  x8, #63
    0xd400_0001, // 40  svc  #0
    0xf100_001f, // 44  cmp  x0, #0
    0x54ff_ff4c, // 48  b.gt again           something came: not for us
    0xb100_101f, // 52  cmn  x0, #4          EINTR
    0x54ff_ff00, // 56  b.eq again
    // exit_group(0)
    0xd280_0000, // 60  mov  x0, #0
    0xd280_0bc8, // 64  mov  x8, #94
    0xd400_0001, // 68  svc  #0
];

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;
    use std::process::{Child, Command, Stdio};

    use super::*;
    use crate::backend::docker::elf::Elf;

    struct Waiter {
        process: Child,
        _folder: tempfile::TempDir,
    }

    fn run_here() -> Option<Waiter> {
        let machine = Machine::named(std::env::consts::ARCH)?;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("waiter");
        std::fs::write(&path, executable(machine)).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        let process = Command::new(&path).stdin(Stdio::piped()).spawn().unwrap();
        Some(Waiter { process, _folder: folder })
    }

    #[test]
    fn it_waits_through_input_and_ends_with_its_end() {
        let Some(mut waiter) = run_here() else { return };
        let mut stdin = waiter.process.stdin.take().unwrap();
        stdin.write_all(&[7; 100_000]).unwrap();
        assert_eq!(waiter.process.try_wait().unwrap(), None);
        drop(stdin);
        assert_eq!(waiter.process.wait().unwrap().code(), Some(0));
    }

    #[test]
    fn it_ignores_the_ends_of_children() {
        let Some(mut waiter) = run_here() else { return };
        let stdin = waiter.process.stdin.take().unwrap();
        let status = format!("/proc/{}/status", waiter.process.id());
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(5);
        let ignored = loop {
            let text = std::fs::read_to_string(&status).unwrap();
            let mask = text.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap().trim();
            let mask = u64::from_str_radix(mask, 16).unwrap();
            let sigchld = 1 << (17 - 1);
            if mask & sigchld != 0 {
                break true;
            }
            if std::time::Instant::now() > deadline {
                break false;
            }
            std::thread::yield_now();
        };
        drop(stdin);
        waiter.process.wait().unwrap();
        assert!(ignored);
    }

    #[test]
    fn it_is_a_small_executable_of_either_machine() {
        for machine in [Machine::X86_64, Machine::Aarch64] {
            let bytes = executable(machine);
            let elf = Elf::parse(&bytes).unwrap();
            assert_eq!((elf.machine(), elf.interpreter()), (machine, None));
            assert!(bytes.len() < 512);
        }
    }
}
