// Stands before CUTLASS's file of this name in the host half: see mucc_shim.h.
#pragma once
