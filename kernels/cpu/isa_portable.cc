// SPDX-License-Identifier: Apache-2.0
//
// The arithmetic for one instruction set; the build gives this file its flags.
#define KBD_VECTOR_BYTES 16
#define KBD_TILE_ROWS 4
#define KBD_ISA(type) portable_##type
#include "cpu/isa_body.h"
