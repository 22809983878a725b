// The part of a kernel library that all programs share: argument checks, doors, loading and launching.
//
// Compiled once and linked into every library that is built from parts.
#define MUCC_SHARED
#include <mucc/launch.h>

MUCC_DOOR const char* mucc_last_error(void) { return mucc::last_error.text; }

MUCC_DOOR void mucc_on_launch(mucc::LaunchHook hook) { mucc::launch_hook = hook; }

extern "C" char const mucc_manifest_text[];  // beside the machine code for the device
MUCC_DOOR const char* mucc_manifest(void) { return mucc_manifest_text; }
