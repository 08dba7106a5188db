#pragma once

namespace draftgate {

// Nanoseconds for a cache line to go one way between two threads: the lower quartile of short bursts of there and back.
// Tens where both processors share a cache, hundreds where they do not; it is paid at every barrier of a call.
double exchange_ns();

}  // namespace draftgate
