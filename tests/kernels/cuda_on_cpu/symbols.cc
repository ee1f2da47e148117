// SPDX-License-Identifier: Apache-2.0
#include "symbols.h"

#include <cxxabi.h>
#include <elf.h>
#include <link.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>

namespace cuda_on_cpu {
namespace {

using Header = ElfW(Ehdr);
using Section = ElfW(Shdr);
using Segment = ElfW(Phdr);
using Symbol = ElfW(Sym);

// Variables of the emulator's own functions.
constexpr char kOwn[] = "_ZZN11cuda_on_cpu";

struct Table : Symbols {
  std::map<const void*, std::string> functions;
};

std::string demangled(const std::string& name) {
  int status = 0;
  char* plain = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  std::string result = status == 0 ? plain : name;
  std::free(plain);
  return result;
}

// The first object is the executable.
int visit_executable(dl_phdr_info* info, size_t, void* opaque) {
  *static_cast<dl_phdr_info*>(opaque) = *info;
  return 1;
}

dl_phdr_info executable() {
  dl_phdr_info info{};
  dl_iterate_phdr(visit_executable, &info);
  return info;
}

Table read() {
  Table table;
  const dl_phdr_info info = executable();
  table.load_address = reinterpret_cast<const char*>(info.dlpi_addr);
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    if (info.dlpi_phdr[i].p_type == PT_TLS) {
      table.thread_local_bytes = info.dlpi_phdr[i].p_memsz;
    }
  }
  std::ifstream file("/proc/self/exe", std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  Header header{};
  std::memcpy(&header, bytes.data(), std::min(sizeof(header), bytes.size()));
  std::vector<Section> sections(header.e_shnum);
  std::memcpy(sections.data(), bytes.data() + header.e_shoff, sections.size() * sizeof(Section));
  bool found = false;
  for (const Section& section : sections) {
    if (section.sh_type != SHT_SYMTAB) {
      continue;
    }
    found = true;
    const char* names = bytes.data() + sections[section.sh_link].sh_offset;
    for (size_t i = 0; i < section.sh_size / sizeof(Symbol); ++i) {
      Symbol symbol;
      std::memcpy(&symbol, bytes.data() + section.sh_offset + i * sizeof(Symbol), sizeof(Symbol));
      const char* name = names + symbol.st_name;
      const int type = ELF64_ST_TYPE(symbol.st_info);
      if (symbol.st_shndx == SHN_UNDEF) {
        continue;
      }
      if (type == STT_FUNC) {
        table.functions.emplace(table.load_address + symbol.st_value, name);
      } else if (type == STT_TLS && std::strncmp(name, "_ZZ", 3) == 0 &&
                 std::strncmp(name, kOwn, sizeof(kOwn) - 1) != 0) {
        table.variables.push_back({symbol.st_value, symbol.st_size, name, demangled(name)});
      }
    }
  }
  if (!found) {
    std::fprintf(stderr, "cuda_on_cpu: this executable has no symbol table. Do not strip it.\n");
    std::abort();
  }
  std::sort(table.variables.begin(), table.variables.end(),
            [](const Variable& a, const Variable& b) { return a.offset < b.offset; });
  return table;
}

const Table& table() {
  static const Table result = read();
  return result;
}

}  // namespace

std::string Symbols::mangled_function(const void* address) const {
  const auto found = table().functions.find(address);
  return found == table().functions.end() ? "?" : found->second;
}

std::string Symbols::function(const void* address) const {
  return demangled(mangled_function(address));
}

const Symbols& symbols() { return table(); }

char* thread_local_block() { return static_cast<char*>(executable().dlpi_tls_data); }

}  // namespace cuda_on_cpu
