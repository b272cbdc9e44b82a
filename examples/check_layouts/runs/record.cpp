// SPDX-License-Identifier: Apache-2.0
#include "record.hpp"

#include <cstring>
#include <type_traits>

namespace tenon_test {

namespace {

// Writes fields one after another; reads them back in the same order.
class writer {
 public:
  std::vector<std::byte> bytes;

  template <class T>
  void field(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    const auto* from = reinterpret_cast<const std::byte*>(&value);
    bytes.insert(bytes.end(), from, from + sizeof(T));
  }
  void field(const std::string& text) { list(text); }
  template <class T>
  void field(const std::vector<T>& values) {
    list(values);
  }
  void field(const piece& p) { fields_of(*this, p); }
  template <class A, class B>
  void field(const std::pair<A, B>& both) {
    field(both.first);
    field(both.second);
  }

  template <class F, class Record>
  static void fields_of(F& f, Record& r) {
    if constexpr (std::is_same_v<std::remove_const_t<Record>, piece>) {
      f.field(r.name), f.field(r.extents), f.field(r.regions), f.field(r.begin);
      f.field(r.counted), f.field(r.is_copy), f.field(r.values);
    } else {
      f.field(r.initial), f.field(r.gradients), f.field(r.weights), f.field(r.losses);
      f.field(r.balance_losses);
      f.field(r.norms), f.field(r.faults), f.field(r.parameters), f.field(r.owned);
      f.field(r.state_bytes), f.field(r.operations), f.field(r.costs);
    }
  }

 private:
  template <class List>
  void list(const List& all) {
    field(static_cast<std::int64_t>(all.size()));
    for (const auto& each : all) field(each);
  }
};

class reader {
 public:
  explicit reader(const std::vector<std::byte>& bytes) : from_(bytes.data()) {}

  template <class T>
  void field(T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    std::memcpy(&value, from_, sizeof(T));
    from_ += sizeof(T);
  }
  void field(std::string& text) { list(text); }
  template <class T>
  void field(std::vector<T>& values) {
    list(values);
  }
  void field(piece& p) { writer::fields_of(*this, p); }

 private:
  template <class List>
  void list(List& all) {
    std::int64_t size = 0;
    field(size);
    all.resize(static_cast<std::size_t>(size));
    for (auto& each : all) field(each);
  }

  const std::byte* from_;
};

}  // namespace

std::vector<std::byte> bytes_of_record(const rank_record& record) {
  writer all;
  writer::fields_of(all, record);
  std::vector<std::pair<std::string, std::int64_t>> rows(record.traffic.begin(),
                                                         record.traffic.end());
  all.field(rows.size());
  for (const auto& row : rows) all.field(row);
  return std::move(all.bytes);
}

rank_record record_of_bytes(const std::vector<std::byte>& bytes) {
  reader all(bytes);
  rank_record record;
  writer::fields_of(all, record);
  std::size_t rows = 0;
  all.field(rows);
  for (std::size_t i = 0; i < rows; ++i) {
    std::string row;
    std::int64_t sent = 0;
    all.field(row);
    all.field(sent);
    record.traffic[row] = sent;
  }
  return record;
}

}  // namespace tenon_test
