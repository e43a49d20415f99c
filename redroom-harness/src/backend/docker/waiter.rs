//! Process 1 of an agent's container: it waits for the end of its standard input, and nothing else.
//!
//! Why not a program of the image: an agent that fills its memory gets the kernel to kill something, and whatever has the
//! most pages is taken. If that is process 1, the container is gone. This one has two pages. It runs as a user of its own,
//! so that `kill -9 -1` by the agent's user ends every process but it. It ignores `SIGCHLD`, so that the kernel reaps what
//! is orphaned to it. When the harness dies, the engine closes its standard input, and the container ends. When the harness
//! hangs, nothing closes: so it ends, too, when nothing has come for as long as the lease says.
//!
//! The executable is put together here byte by byte: a compiler for each target, just for this, would be far more to trust.

use std::time::Duration;

use super::elf::Machine;

/// Where it lies in the sandbox.
pub(crate) const PATH: &str = "/.redroom-waiter";

/// Where it is loaded: page-aligned for pages of 4, 16 and 64 KiB.
const BASE: u64 = 0x40_0000;
const ELF_HEADER: u64 = 64;
const PROGRAM_HEADER: u64 = 56;

/// The whole executable, which ends when nothing has come for this long.
pub(crate) fn executable(machine: Machine, silence: Duration) -> Vec<u8> {
    let code = match machine {
        Machine::X86_64 => X86_64.to_vec(),
        Machine::Aarch64 => AARCH64.iter().flat_map(|instruction| instruction.to_le_bytes()).collect::<Vec<u8>>(),
    };
    let data = data(silence);
    let start = ELF_HEADER + PROGRAM_HEADER;
    let size = start + code.len() as u64 + data.len() as u64;

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
    file.extend(data);
    file
}

/// What stands straight behind the code, as the kernel reads it. The code copies what the kernel writes to onto its stack.
fn data(silence: Duration) -> Vec<u8> {
    let mut data = Vec::new();
    // struct sigaction: the handler is SIG_IGN; flags, restorer and mask are 0.
    data.extend(1_u64.to_le_bytes());
    data.extend([0; 24]);
    // struct pollfd: standard input, POLLIN.
    data.extend(0_u32.to_le_bytes());
    data.extend(1_u16.to_le_bytes());
    data.extend(0_u16.to_le_bytes());
    // struct timespec, by the monotonic clock.
    data.extend(silence.as_secs().to_le_bytes());
    data.extend(u64::from(silence.subsec_nanos()).to_le_bytes());
    data
}

#[rustfmt::skip]
const X86_64: [u8; 141] = [
    // rt_sigaction(SIGCHLD, &action, NULL, 8)
    0xb8, 0x0d, 0x00, 0x00, 0x00,             //   0  mov  eax, 13
    0xbf, 0x11, 0x00, 0x00, 0x00,             //   5  mov  edi, 17
    0x48, 0x8d, 0x35, 0x7c, 0x00, 0x00, 0x00, //  10  lea  rsi, [rip + 124]    the action, at 141
    0x31, 0xd2,                               //  17  xor  edx, edx
    0x41, 0xba, 0x08, 0x00, 0x00, 0x00,       //  19  mov  r10d, 8
    0x0f, 0x05,                               //  25  syscall
    // again: the pollfd and the time onto the stack
    0x48, 0x8b, 0x05, 0x8b, 0x00, 0x00, 0x00, //  27  mov  rax, [rip + 139]    the pollfd, at 173
    0x48, 0x89, 0x44, 0x24, 0xe8,             //  34  mov  [rsp - 24], rax
    0x48, 0x8b, 0x05, 0x87, 0x00, 0x00, 0x00, //  39  mov  rax, [rip + 135]    the seconds, at 181
    0x48, 0x89, 0x44, 0x24, 0xf0,             //  46  mov  [rsp - 16], rax
    0x48, 0x8b, 0x05, 0x83, 0x00, 0x00, 0x00, //  51  mov  rax, [rip + 131]    the nanoseconds, at 189
    0x48, 0x89, 0x44, 0x24, 0xf8,             //  58  mov  [rsp - 8], rax
    // ppoll(the pollfd, 1, the time, NULL, 8)
    0x48, 0x8d, 0x7c, 0x24, 0xe8,             //  63  lea  rdi, [rsp - 24]
    0xbe, 0x01, 0x00, 0x00, 0x00,             //  68  mov  esi, 1
    0x48, 0x8d, 0x54, 0x24, 0xf0,             //  73  lea  rdx, [rsp - 16]
    0x45, 0x31, 0xd2,                         //  78  xor  r10d, r10d
    0x41, 0xb8, 0x08, 0x00, 0x00, 0x00,       //  81  mov  r8d, 8
    0xb8, 0x0f, 0x01, 0x00, 0x00,             //  87  mov  eax, 271
    0x0f, 0x05,                               //  92  syscall
    0x48, 0x83, 0xf8, 0xfc,                   //  94  cmp  rax, -4             EINTR
    0x74, 0xb7,                               //  98  je   again
    0x48, 0x85, 0xc0,                         // 100  test rax, rax
    0x7e, 0x1b,                               // 103  jle  end                 nothing came, or nothing can come
    // read(0, stack, 104)
    0x31, 0xc0,                               // 105  xor  eax, eax
    0x31, 0xff,                               // 107  xor  edi, edi
    0x48, 0x8d, 0x74, 0x24, 0x80,             // 109  lea  rsi, [rsp - 128]
    0xba, 0x68, 0x00, 0x00, 0x00,             // 114  mov  edx, 104
    0x0f, 0x05,                               // 119  syscall
    0x48, 0x85, 0xc0,                         // 121  test rax, rax
    0x7f, 0x9d,                               // 124  jg   again               a sign of life
    0x48, 0x83, 0xf8, 0xfc,                   // 126  cmp  rax, -4             EINTR
    0x74, 0x97,                               // 130  je   again
    // end: exit_group(0)
    0x31, 0xff,                               // 132  xor  edi, edi
    0xb8, 0xe7, 0x00, 0x00, 0x00,             // 134  mov  eax, 231
    0x0f, 0x05,                               // 139  syscall
];

#[rustfmt::skip]
const AARCH64: [u32; 36] = [
    // rt_sigaction(SIGCHLD, &action, NULL, 8)
    0xd280_0220, //   0  mov  x0, #17
    0x1000_0461, //   4  adr  x1, action         at 144
    0xd280_0002, //   8  mov  x2, #0
    0xd280_0103, //  12  mov  x3, #8
    0xd280_10c8, //  16  mov  x8, #134
    0xd400_0001, //  20  svc  #0
    // again: the pollfd and the time onto the stack
    0x5800_04c9, //  24  ldr  x9, pollfd         at 176
    0x5800_04ea, //  28  ldr  x10, seconds       at 184
    0x5800_050b, //  32  ldr  x11, nanoseconds   at 192
    0xf81e_83e9, //  36  stur x9, [sp, #-24]
    0xf81f_03ea, //  40  stur x10, [sp, #-16]
    0xf81f_83eb, //  44  stur x11, [sp, #-8]
    // ppoll(the pollfd, 1, the time, NULL, 8)
    0xd100_63e0, //  48  sub  x0, sp, #24
    0xd280_0021, //  52  mov  x1, #1
    0xd100_43e2, //  56  sub  x2, sp, #16
    0xd280_0003, //  60  mov  x3, #0
    0xd280_0104, //  64  mov  x4, #8
    0xd280_0928, //  68  mov  x8, #73
    0xd400_0001, //  72  svc  #0
    0xb100_101f, //  76  cmn  x0, #4             EINTR
    0x54ff_fe40, //  80  b.eq again
    0xf100_001f, //  84  cmp  x0, #0
    0x5400_014d, //  88  b.le end                nothing came, or nothing can come
    // read(0, stack, 104)
    0xd280_0000, //  92  mov  x0, #0
    0xd102_03e1, //  96  sub  x1, sp, #128
    0xd280_0d02, // 100  mov  x2, #104
    0xd280_07e8, // 104  mov  x8, #63
    0xd400_0001, // 108  svc  #0
    0xf100_001f, // 112  cmp  x0, #0
    0x54ff_fd2c, // 116  b.gt again              a sign of life
    0xb100_101f, // 120  cmn  x0, #4             EINTR
    0x54ff_fce0, // 124  b.eq again
    // end: exit_group(0)
    0xd280_0000, // 128  mov  x0, #0
    0xd280_0bc8, // 132  mov  x8, #94
    0xd400_0001, // 136  svc  #0
    0xd503_201f, // 140  nop                     what follows is aligned
];

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;
    use std::process::{Child, Command, Stdio};
    use std::time::Instant;

    use super::*;
    use crate::backend::docker::elf::Elf;

    struct Waiter {
        process: Child,
        _folder: tempfile::TempDir,
    }

    const LONG: Duration = Duration::from_secs(600);

    fn run_here(silence: Duration) -> Option<Waiter> {
        let machine = Machine::named(std::env::consts::ARCH)?;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("waiter");
        std::fs::write(&path, executable(machine, silence)).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        let process = Command::new(&path).stdin(Stdio::piped()).spawn().unwrap();
        Some(Waiter { process, _folder: folder })
    }

    #[test]
    fn it_waits_through_input_and_ends_with_its_end() {
        let Some(mut waiter) = run_here(LONG) else { return };
        let mut stdin = waiter.process.stdin.take().unwrap();
        stdin.write_all(&[7; 100_000]).unwrap();
        assert_eq!(waiter.process.try_wait().unwrap(), None);
        drop(stdin);
        assert_eq!(waiter.process.wait().unwrap().code(), Some(0));
    }

    #[test]
    fn it_ends_when_nothing_has_come_for_too_long() {
        let silence = Duration::from_millis(1200);
        let Some(mut waiter) = run_here(silence) else { return };
        let started = Instant::now();
        let mut stdin = waiter.process.stdin.take().unwrap();
        // Whatever comes is a sign of life.
        while started.elapsed() < 2 * silence {
            stdin.write_all(&[0]).unwrap();
            assert_eq!(waiter.process.try_wait().unwrap(), None, "after {:?}", started.elapsed());
            std::thread::sleep(silence / 6);
        }
        let last = Instant::now();
        assert_eq!(waiter.process.wait().unwrap().code(), Some(0));
        // The last byte was written up to a sixth before.
        assert!(last.elapsed() > silence / 2, "{:?}", last.elapsed());
    }

    #[test]
    fn it_ignores_the_ends_of_children() {
        let Some(mut waiter) = run_here(LONG) else { return };
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
            let bytes = executable(machine, LONG);
            let elf = Elf::parse(&bytes).unwrap();
            assert_eq!((elf.machine(), elf.interpreter()), (machine, None));
            assert!(bytes.len() < 512);
        }
    }
}
