//! redroom
