#pragma once

// Everything that a program which trains a system of its own includes.

#include "bigmac/system/system.h"
#include "bigmac/system/values.h"
#include "bigmac/train/program.h"
#include "bigmac/train/session.h"
