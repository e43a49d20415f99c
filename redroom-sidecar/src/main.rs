//! The sidecar as a program of its own: process 1 of a slot's container.

fn main() -> std::process::ExitCode {
    redroom_sidecar::container_main()
}
