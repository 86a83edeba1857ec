/* PJRT's C layout: made by scripts/generate_capi.py from pjrt_layout.txt; do not edit. */
#ifndef TILESTEP_PJRT_LAYOUT_H
#define TILESTEP_PJRT_LAYOUT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TILESTEP_PJRT_MAJOR 0
#define TILESTEP_PJRT_MINOR 113

enum {
  PJRT_Extension_Type_Profiler = 1,
  PJRT_Extension_Type_Layouts = 4,
  PJRT_Error_Code_OK = 0,
  PJRT_Error_Code_CANCELLED = 1,
  PJRT_Error_Code_UNKNOWN = 2,
  PJRT_Error_Code_INVALID_ARGUMENT = 3,
  PJRT_Error_Code_DEADLINE_EXCEEDED = 4,
  PJRT_Error_Code_NOT_FOUND = 5,
  PJRT_Error_Code_ALREADY_EXISTS = 6,
  PJRT_Error_Code_PERMISSION_DENIED = 7,
  PJRT_Error_Code_RESOURCE_EXHAUSTED = 8,
  PJRT_Error_Code_FAILED_PRECONDITION = 9,
  PJRT_Error_Code_ABORTED = 10,
  PJRT_Error_Code_OUT_OF_RANGE = 11,
  PJRT_Error_Code_UNIMPLEMENTED = 12,
  PJRT_Error_Code_INTERNAL = 13,
  PJRT_Error_Code_UNAVAILABLE = 14,
  PJRT_Error_Code_DATA_LOSS = 15,
  PJRT_Error_Code_UNAUTHENTICATED = 16,
  PJRT_NamedValue_kString = 0,
  PJRT_NamedValue_kInt64 = 1,
  PJRT_NamedValue_kInt64List = 2,
  PJRT_NamedValue_kFloat = 3,
  PJRT_NamedValue_kBool = 4,
  PJRT_Buffer_Type_INVALID = 0,
  PJRT_Buffer_Type_PRED = 1,
  PJRT_Buffer_Type_S8 = 2,
  PJRT_Buffer_Type_S16 = 3,
  PJRT_Buffer_Type_S32 = 4,
  PJRT_Buffer_Type_S64 = 5,
  PJRT_Buffer_Type_U8 = 6,
  PJRT_Buffer_Type_U16 = 7,
  PJRT_Buffer_Type_U32 = 8,
  PJRT_Buffer_Type_U64 = 9,
  PJRT_Buffer_Type_F16 = 10,
  PJRT_Buffer_Type_F32 = 11,
  PJRT_Buffer_Type_F64 = 12,
  PJRT_Buffer_Type_BF16 = 13,
  PJRT_Buffer_Type_C64 = 14,
  PJRT_Buffer_Type_C128 = 15,
  PJRT_Buffer_Type_F8E5M2 = 16,
  PJRT_Buffer_Type_F8E4M3FN = 17,
  PJRT_Buffer_Type_F8E4M3B11FNUZ = 18,
  PJRT_Buffer_Type_F8E5M2FNUZ = 19,
  PJRT_Buffer_Type_F8E4M3FNUZ = 20,
  PJRT_Buffer_Type_S4 = 21,
  PJRT_Buffer_Type_U4 = 22,
  PJRT_Buffer_Type_TOKEN = 23,
  PJRT_Buffer_Type_S2 = 24,
  PJRT_Buffer_Type_U2 = 25,
  PJRT_Buffer_Type_F8E4M3 = 26,
  PJRT_Buffer_Type_F8E3M4 = 27,
  PJRT_Buffer_Type_F8E8M0FNU = 28,
  PJRT_Buffer_Type_F4E2M1FN = 29,
  PJRT_Buffer_Type_S1 = 30,
  PJRT_Buffer_Type_U1 = 31,
  PJRT_HostBufferSemantics_kImmutableOnlyDuringCall = 0,
  PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes = 1,
  PJRT_HostBufferSemantics_kImmutableZeroCopy = 2,
  PJRT_HostBufferSemantics_kMutableZeroCopy = 3,
  PJRT_Buffer_MemoryLayout_Type_Tiled = 0,
  PJRT_Buffer_MemoryLayout_Type_Strides = 1,
};

typedef struct {
  size_t struct_size;
  int32_t type;
  void* next;
} PJRT_Extension_Base;

typedef struct {
  size_t struct_size;
  void* extension_start;
  int32_t major_version;
  int32_t minor_version;
} PJRT_Api_Version;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* error;
} PJRT_Error_Destroy_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* error;
  void* message;
  size_t message_size;
} PJRT_Error_Message_Args;

typedef struct {
  size_t struct_size;
  size_t instance_size;
  void* extension_start;
  void* destroy;
  void* message;
  void* get_code;
  void* for_each_payload;
} PJRT_Error_FunctionTable;

typedef struct {
  void* vtable;
} PJRT_Error;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* error;
  int32_t code;
} PJRT_Error_GetCode_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* error;
  void* visitor;
  void* user_arg;
} PJRT_Error_ForEachPayload_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* name;
  size_t name_size;
  int32_t type;
  union { void* string_value; int64_t int64_value; void* int64_array_value; float float_value; bool bool_value; };
  size_t value_size;
} PJRT_NamedValue;

typedef struct {
  size_t struct_size;
  void* extension_start;
} PJRT_Plugin_Initialize_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* attributes;
  size_t num_attributes;
} PJRT_Plugin_Attributes_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* event;
} PJRT_Event_Destroy_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* event;
  bool is_ready;
} PJRT_Event_IsReady_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* event;
} PJRT_Event_Error_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* event;
} PJRT_Event_Await_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* event;
  void* callback;
  void* user_arg;
} PJRT_Event_OnReady_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* event;
} PJRT_Event_Create_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* event;
  int32_t error_code;
  void* error_message;
  size_t error_message_size;
} PJRT_Event_Set_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  size_t instance_struct_size;
  void* get_user_data;
  void* set_user_data;
} PJRT_Memory_FunctionTable;

typedef struct {
  void* vtable;
} PJRT_Memory;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* create_options;
  size_t num_options;
  void* kv_get_callback;
  void* kv_get_user_arg;
  void* kv_put_callback;
  void* kv_put_user_arg;
  void* client;
  void* kv_try_get_callback;
  void* kv_try_get_user_arg;
} PJRT_Client_Create_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* client;
} PJRT_Client_Destroy_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* client;
  void* platform_name;
  size_t platform_name_size;
} PJRT_Client_PlatformName_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* client;
  int32_t process_index;
} PJRT_Client_ProcessIndex_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* client;
  void* platform_version;
  size_t platform_version_size;
} PJRT_Client_PlatformVersion_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* client;
  void* topology;
} PJRT_Client_TopologyDescription_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* client;
  void* devices;
  size_t num_devices;
} PJRT_Client_Devices_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* client;
  void* addressable_devices;
  size_t num_addressable_devices;
} PJRT_Client_AddressableDevices_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* client;
  int32_t id;
  void* device;
} PJRT_Client_LookupDevice_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* client;
  int32_t local_hardware_id;
  void* addressable_device;
} PJRT_Client_LookupAddressableDevice_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* client;
  void* addressable_memories;
  size_t num_addressable_memories;
} PJRT_Client_AddressableMemories_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* code;
  size_t code_size;
  void* format;
  size_t format_size;
} PJRT_Program;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* client;
  void* program;
  void* compile_options;
  size_t compile_options_size;
  void* executable;
} PJRT_Client_Compile_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* client;
  void* executable;
  void* compile_options;
  size_t compile_options_size;
  void* loaded_executable;
} PJRT_Client_Load_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* client;
  int32_t num_replicas;
  int32_t num_partitions;
  size_t default_assignment_size;
  void* default_assignment;
} PJRT_Client_DefaultDeviceAssignment_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* minor_to_major;
  size_t minor_to_major_size;
  void* tile_dims;
  void* tile_dim_sizes;
  size_t num_tiles;
} PJRT_Buffer_MemoryLayout_Tiled;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* byte_strides;
  size_t num_byte_strides;
} PJRT_Buffer_MemoryLayout_Strides;

typedef struct {
  size_t struct_size;
  void* extension_start;
  union { PJRT_Buffer_MemoryLayout_Tiled tiled; PJRT_Buffer_MemoryLayout_Strides strides; };
  int32_t type;
} PJRT_Buffer_MemoryLayout;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* client;
  void* shape_dims;
  size_t shape_num_dims;
  int32_t shape_element_type;
  void* shape_layout;
  void* device;
  void* memory;
  void* buffer;
} PJRT_Client_CreateUninitializedBuffer_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* client;
  int32_t error_code;
  void* error_message;
  size_t error_message_size;
  void* shape_dims;
  size_t shape_num_dims;
  int32_t shape_element_type;
  void* shape_layout;
  void* memory;
  void* buffer;
  void* payload;
  size_t num_payload;
} PJRT_Client_CreateErrorBuffer_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* client;
  void* data;
  int32_t type;
  void* dims;
  size_t num_dims;
  void* byte_strides;
  size_t num_byte_strides;
  int32_t host_buffer_semantics;
  void* device;
  void* memory;
  void* device_layout;
  void* done_with_host_buffer;
  void* buffer;
} PJRT_Client_BufferFromHostBuffer_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* client;
  void* device_buffer_ptr;
  void* dims;
  size_t num_dims;
  int32_t element_type;
  void* layout;
  void* device;
  void* on_delete_callback;
  void* on_delete_callback_arg;
  int64_t stream;
  void* buffer;
  void* memory;
} PJRT_Client_CreateViewOfDeviceBuffer_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* dims;
  size_t num_dims;
  int32_t element_type;
} PJRT_ShapeSpec;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* device_description;
  int32_t id;
} PJRT_DeviceDescription_Id_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* device_description;
  int32_t process_index;
} PJRT_DeviceDescription_ProcessIndex_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* device_description;
  size_t num_attributes;
  void* attributes;
} PJRT_DeviceDescription_Attributes_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* device_description;
  void* device_kind;
  size_t device_kind_size;
} PJRT_DeviceDescription_Kind_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* device_description;
  void* debug_string;
  size_t debug_string_size;
} PJRT_DeviceDescription_DebugString_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* device_description;
  void* to_string;
  size_t to_string_size;
} PJRT_DeviceDescription_ToString_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* device;
  void* device_description;
} PJRT_Device_GetDescription_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* device;
  bool is_addressable;
} PJRT_Device_IsAddressable_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* device;
  int32_t local_hardware_id;
} PJRT_Device_LocalHardwareId_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* device;
  void* memories;
  size_t num_memories;
} PJRT_Device_AddressableMemories_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* device;
  void* memory;
} PJRT_Device_DefaultMemory_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* device;
  int64_t bytes_in_use;
  int64_t peak_bytes_in_use;
  bool peak_bytes_in_use_is_set;
  int64_t num_allocs;
  bool num_allocs_is_set;
  int64_t largest_alloc_size;
  bool largest_alloc_size_is_set;
  int64_t bytes_limit;
  bool bytes_limit_is_set;
  int64_t bytes_reserved;
  bool bytes_reserved_is_set;
  int64_t peak_bytes_reserved;
  bool peak_bytes_reserved_is_set;
  int64_t bytes_reservable_limit;
  bool bytes_reservable_limit_is_set;
  int64_t largest_free_block_bytes;
  bool largest_free_block_bytes_is_set;
  int64_t pool_bytes;
  bool pool_bytes_is_set;
  int64_t peak_pool_bytes;
  bool peak_pool_bytes_is_set;
  int64_t peak_allocated_bytes;
  bool peak_allocated_bytes_is_set;
} PJRT_Device_MemoryStats_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* device;
} PJRT_Device_ClearMemoryStats_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* device;
  void* attributes;
  size_t num_attributes;
  void* device_attributes;
  void* attributes_deleter;
} PJRT_Device_GetAttributes_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* memory;
  int32_t id;
} PJRT_Memory_Id_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* memory;
  void* kind;
  size_t kind_size;
} PJRT_Memory_Kind_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* memory;
  int32_t kind_id;
} PJRT_Memory_Kind_Id_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* memory;
  void* debug_string;
  size_t debug_string_size;
} PJRT_Memory_DebugString_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* memory;
  void* to_string;
  size_t to_string_size;
} PJRT_Memory_ToString_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* memory;
  void* devices;
  size_t num_devices;
} PJRT_Memory_AddressableByDevices_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* context;
} PJRT_ExecuteContext_Create_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* context;
} PJRT_ExecuteContext_Destroy_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* executable;
} PJRT_Executable_Destroy_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* executable;
} PJRT_LoadedExecutable_Destroy_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* loaded_executable;
  void* executable;
} PJRT_LoadedExecutable_GetExecutable_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* executable;
  void* serialized_bytes;
  size_t serialized_bytes_size;
  void* serialized_device_assignment;
  void* serialized_device_assignment_deleter;
} PJRT_LoadedExecutable_GetDeviceAssignment_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* executable;
  void* executable_name;
  size_t executable_name_size;
} PJRT_Executable_Name_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* executable;
  size_t num_replicas;
} PJRT_Executable_NumReplicas_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* executable;
  size_t num_partitions;
} PJRT_Executable_NumPartitions_Args;

typedef struct {
  int32_t replica;
  int32_t partition;
} PJRT_LogicalDeviceIds;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* executable;
  void* addressable_devices;
  size_t num_addressable_devices;
} PJRT_LoadedExecutable_AddressableDevices_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* executable;
  void* addressable_device_logical_ids;
  size_t num_addressable_device_logical_ids;
} PJRT_LoadedExecutable_AddressableDeviceLogicalIds_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* executable;
  void* program;
} PJRT_Executable_OptimizedProgram_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* executable;
} PJRT_LoadedExecutable_Delete_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* executable;
  bool is_deleted;
} PJRT_LoadedExecutable_IsDeleted_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* send_callbacks;
  void* recv_callbacks;
  size_t num_send_ops;
  size_t num_recv_ops;
  int32_t launch_id;
  void* non_donatable_input_indices;
  size_t num_non_donatable_input_indices;
  void* context;
  void* call_location;
  size_t num_tasks;
  void* task_ids;
  void* incarnation_ids;
  void* multi_slice_config;
  bool use_major_to_minor_data_layout_for_callbacks;
  void* hlo_output_callbacks;
  size_t num_hlo_output_callbacks;
} PJRT_ExecuteOptions;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* executable;
  void* options;
  void* argument_lists;
  size_t num_devices;
  size_t num_args;
  void* output_lists;
  void* device_complete_events;
  void* execute_device;
} PJRT_LoadedExecutable_Execute_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* executable;
  size_t num_outputs;
} PJRT_Executable_NumOutputs_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* executable;
  int64_t size_in_bytes;
} PJRT_Executable_SizeOfGeneratedCodeInBytes_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* executable;
  void* executable_fingerprint;
  size_t executable_fingerprint_size;
} PJRT_Executable_Fingerprint_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* executable;
  size_t num_properties;
  void* properties;
} PJRT_Executable_GetCostAnalysis_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* executable;
  int64_t generated_code_size_in_bytes;
  int64_t argument_size_in_bytes;
  int64_t output_size_in_bytes;
  int64_t alias_size_in_bytes;
  int64_t temp_size_in_bytes;
  int64_t host_generated_code_size_in_bytes;
  int64_t host_argument_size_in_bytes;
  int64_t host_output_size_in_bytes;
  int64_t host_alias_size_in_bytes;
  int64_t host_temp_size_in_bytes;
  int64_t peak_memory_in_bytes;
  int64_t total_size_in_bytes;
  int64_t total_allocation_bytes;
  int64_t indefinite_allocations;
  int64_t peak_unpadded_heap_bytes;
} PJRT_Executable_GetCompiledMemoryStats_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* executable;
  void* output_types;
  size_t num_output_types;
} PJRT_Executable_OutputElementTypes_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* executable;
  size_t num_outputs;
  void* dims;
  void* dim_sizes;
} PJRT_Executable_OutputDimensions_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* executable;
  size_t num_parameters;
  void* memory_kinds;
  void* memory_kind_sizes;
} PJRT_Executable_ParameterMemoryKinds_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* executable;
  size_t num_outputs;
  void* memory_kinds;
  void* memory_kind_sizes;
} PJRT_Executable_OutputMemoryKinds_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* executable;
  void* serialized_bytes;
  size_t serialized_bytes_size;
  void* serialized_executable;
  void* serialized_executable_deleter;
} PJRT_Executable_Serialize_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* executable;
  void* serialized_bytes;
  size_t serialized_bytes_size;
  void* serialized_compile_options;
  void* serialized_compile_options_deleter;
} PJRT_Executable_GetCompileOptions_Args;

typedef struct {
  size_t struct_size;
  void* computation_origin;
  size_t computation_origin_size;
  void* multi_slice_config;
} PJRT_LoadOptions;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* client;
  void* serialized_executable;
  size_t serialized_executable_size;
  void* loaded_executable;
  void* overridden_serialized_compile_options;
  size_t overridden_serialized_compile_options_size;
  void* load_options;
} PJRT_Executable_DeserializeAndLoad_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* executable;
  void* executable_fingerprint;
  size_t executable_fingerprint_size;
} PJRT_LoadedExecutable_Fingerprint_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* buffer;
} PJRT_Buffer_Destroy_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* buffer;
  int32_t type;
} PJRT_Buffer_ElementType_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* buffer;
  void* dims;
  size_t num_dims;
} PJRT_Buffer_Dimensions_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* buffer;
  void* unpadded_dims;
  size_t num_dims;
} PJRT_Buffer_UnpaddedDimensions_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* buffer;
  void* dynamic_dim_indices;
  size_t num_dynamic_dims;
} PJRT_Buffer_DynamicDimensionIndices_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* buffer;
  PJRT_Buffer_MemoryLayout layout;
} PJRT_Buffer_GetMemoryLayout_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* src;
  void* host_layout;
  void* dst;
  size_t dst_size;
  void* event;
} PJRT_Buffer_ToHostBuffer_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* buffer;
  size_t on_device_size_in_bytes;
} PJRT_Buffer_OnDeviceSizeInBytes_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* buffer;
} PJRT_Buffer_Delete_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* buffer;
  bool is_deleted;
} PJRT_Buffer_IsDeleted_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* buffer;
  void* dst;
  int64_t offset;
  int64_t transfer_size;
  void* event;
} PJRT_Buffer_CopyRawToHost_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* buffer;
  int64_t offset;
  int64_t transfer_size;
  void* event;
  void* callback_data;
  void* future_ready_callback;
} PJRT_Buffer_CopyRawToHostFuture_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* buffer;
  void* dst_device;
  void* dst_buffer;
} PJRT_Buffer_CopyToDevice_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* buffer;
  void* dst_memory;
  void* dst_buffer;
} PJRT_Buffer_CopyToMemory_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* buffer;
  int32_t element_type;
  void* dims;
  size_t num_dims;
  void* device_layout;
  void* out_buffer;
} PJRT_Buffer_Bitcast_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* buffer;
  bool is_on_cpu;
} PJRT_Buffer_IsOnCpu_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* buffer;
  void* device;
} PJRT_Buffer_Device_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* buffer;
  void* memory;
} PJRT_Buffer_Memory_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* buffer;
  void* event;
} PJRT_Buffer_ReadyEvent_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* buffer;
  size_t buffer_pointer;
} PJRT_Buffer_UnsafePointer_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* buffer;
} PJRT_Buffer_IncreaseExternalReferenceCount_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* buffer;
} PJRT_Buffer_DecreaseExternalReferenceCount_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* buffer;
  void* device_memory_ptr;
} PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* topology_name;
  size_t topology_name_size;
  void* create_options;
  size_t num_options;
  void* topology;
} PJRT_TopologyDescription_Create_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* topology;
} PJRT_TopologyDescription_Destroy_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* topology;
  void* platform_version;
  size_t platform_version_size;
} PJRT_TopologyDescription_PlatformVersion_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* topology;
  void* platform_name;
  size_t platform_name_size;
} PJRT_TopologyDescription_PlatformName_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* topology;
  void* descriptions;
  size_t num_descriptions;
} PJRT_TopologyDescription_GetDeviceDescriptions_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* topology;
  void* serialized_bytes;
  size_t serialized_bytes_size;
  void* serialized_topology;
  void* serialized_topology_deleter;
} PJRT_TopologyDescription_Serialize_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* serialized_topology;
  size_t serialized_topology_size;
  void* topology;
} PJRT_TopologyDescription_Deserialize_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* topology;
  void* attributes;
  size_t num_attributes;
} PJRT_TopologyDescription_Attributes_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* topology;
  uint64_t fingerprint;
} PJRT_TopologyDescription_Fingerprint_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* topology;
  int32_t memory_space_kind_id;
  void* dims;
  size_t num_dims;
  int32_t element_type;
  void* layout;
  void* serialized_shape;
  size_t serialized_shape_size;
  void* serialized_shape_deleter;
} PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* topology;
  void* memory_space_kind_ids;
  size_t num_memory_space_kind_ids;
} PJRT_TopologyDescription_GetMemorySpaceKindIds_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* topology;
  void* program;
  void* compile_options;
  size_t compile_options_size;
  void* client;
  void* executable;
} PJRT_Compile_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* layout;
} PJRT_Layouts_MemoryLayout_Destroy_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* layout;
  void* serialized_bytes;
  size_t serialized_bytes_size;
  void* serialized_layout;
  void* serialized_layout_deleter;
} PJRT_Layouts_MemoryLayout_Serialize_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* buffer;
  void* layout;
} PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* client;
  int32_t type;
  void* dims;
  size_t num_dims;
  void* layout;
} PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* topology_description;
  int32_t type;
  void* dims;
  size_t num_dims;
  void* layout;
} PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* executable;
  size_t num_outputs;
  void* layouts;
} PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  void* executable;
  size_t num_parameters;
  void* layouts;
} PJRT_Layouts_PJRT_Executable_GetParameterLayouts_Args;

typedef struct {
  PJRT_Extension_Base base;
  void* profiler_api;
  int64_t traceme_context_id;
} PJRT_Profiler_Extension;

typedef struct {
  size_t struct_size;
  void* priv;
  void* error_destroy;
  void* error_message;
  void* error_get_code;
  void* create;
  void* destroy;
  void* start;
  void* stop;
  void* collect_data;
} PLUGIN_Profiler_Api;

typedef struct {
  size_t struct_size;
  void* priv;
  void* error;
} PLUGIN_Profiler_Error_Destroy_Args;

typedef struct {
  size_t struct_size;
  void* priv;
  void* error;
  void* message;
  size_t message_size;
} PLUGIN_Profiler_Error_Message_Args;

typedef struct {
  size_t struct_size;
  void* priv;
  void* error;
  int32_t code;
} PLUGIN_Profiler_Error_GetCode_Args;

typedef struct {
  size_t struct_size;
  void* options;
  size_t options_size;
  void* profiler;
} PLUGIN_Profiler_Create_Args;

typedef struct {
  size_t struct_size;
  void* profiler;
} PLUGIN_Profiler_Destroy_Args;

typedef struct {
  size_t struct_size;
  void* profiler;
} PLUGIN_Profiler_Start_Args;

typedef struct {
  size_t struct_size;
  void* profiler;
} PLUGIN_Profiler_Stop_Args;

typedef struct {
  size_t struct_size;
  void* profiler;
  void* buffer;
  size_t buffer_size_in_bytes;
} PLUGIN_Profiler_CollectData_Args;

typedef struct {
  size_t struct_size;
  void* extension_start;
  PJRT_Api_Version pjrt_api_version;
  void* PJRT_Error_Destroy;
  void* PJRT_Error_Message;
  void* PJRT_Error_GetCode;
  void* PJRT_Plugin_Initialize;
  void* PJRT_Plugin_Attributes;
  void* PJRT_Event_Destroy;
  void* PJRT_Event_IsReady;
  void* PJRT_Event_Error;
  void* PJRT_Event_Await;
  void* PJRT_Event_OnReady;
  void* PJRT_Client_Create;
  void* PJRT_Client_Destroy;
  void* PJRT_Client_PlatformName;
  void* PJRT_Client_ProcessIndex;
  void* PJRT_Client_PlatformVersion;
  void* PJRT_Client_Devices;
  void* PJRT_Client_AddressableDevices;
  void* PJRT_Client_LookupDevice;
  void* PJRT_Client_LookupAddressableDevice;
  void* PJRT_Client_AddressableMemories;
  void* PJRT_Client_Compile;
  void* PJRT_Client_DefaultDeviceAssignment;
  void* PJRT_Client_BufferFromHostBuffer;
  void* PJRT_DeviceDescription_Id;
  void* PJRT_DeviceDescription_ProcessIndex;
  void* PJRT_DeviceDescription_Attributes;
  void* PJRT_DeviceDescription_Kind;
  void* PJRT_DeviceDescription_DebugString;
  void* PJRT_DeviceDescription_ToString;
  void* PJRT_Device_GetDescription;
  void* PJRT_Device_IsAddressable;
  void* PJRT_Device_LocalHardwareId;
  void* PJRT_Device_AddressableMemories;
  void* PJRT_Device_DefaultMemory;
  void* PJRT_Device_MemoryStats;
  void* PJRT_Memory_Id;
  void* PJRT_Memory_Kind;
  void* PJRT_Memory_DebugString;
  void* PJRT_Memory_ToString;
  void* PJRT_Memory_AddressableByDevices;
  void* PJRT_Executable_Destroy;
  void* PJRT_Executable_Name;
  void* PJRT_Executable_NumReplicas;
  void* PJRT_Executable_NumPartitions;
  void* PJRT_Executable_NumOutputs;
  void* PJRT_Executable_SizeOfGeneratedCodeInBytes;
  void* PJRT_Executable_GetCostAnalysis;
  void* PJRT_Executable_OutputMemoryKinds;
  void* PJRT_Executable_OptimizedProgram;
  void* PJRT_Executable_Serialize;
  void* PJRT_LoadedExecutable_Destroy;
  void* PJRT_LoadedExecutable_GetExecutable;
  void* PJRT_LoadedExecutable_AddressableDevices;
  void* PJRT_LoadedExecutable_Delete;
  void* PJRT_LoadedExecutable_IsDeleted;
  void* PJRT_LoadedExecutable_Execute;
  void* PJRT_Executable_DeserializeAndLoad;
  void* PJRT_LoadedExecutable_Fingerprint;
  void* PJRT_Buffer_Destroy;
  void* PJRT_Buffer_ElementType;
  void* PJRT_Buffer_Dimensions;
  void* PJRT_Buffer_UnpaddedDimensions;
  void* PJRT_Buffer_DynamicDimensionIndices;
  void* PJRT_Buffer_GetMemoryLayout;
  void* PJRT_Buffer_OnDeviceSizeInBytes;
  void* PJRT_Buffer_Device;
  void* PJRT_Buffer_Memory;
  void* PJRT_Buffer_Delete;
  void* PJRT_Buffer_IsDeleted;
  void* PJRT_Buffer_CopyToDevice;
  void* PJRT_Buffer_ToHostBuffer;
  void* PJRT_Buffer_IsOnCpu;
  void* PJRT_Buffer_ReadyEvent;
  void* PJRT_Buffer_UnsafePointer;
  void* PJRT_Buffer_IncreaseExternalReferenceCount;
  void* PJRT_Buffer_DecreaseExternalReferenceCount;
  void* PJRT_Buffer_OpaqueDeviceMemoryDataPointer;
  void* PJRT_CopyToDeviceStream_Destroy;
  void* PJRT_CopyToDeviceStream_AddChunk;
  void* PJRT_CopyToDeviceStream_TotalBytes;
  void* PJRT_CopyToDeviceStream_GranuleSize;
  void* PJRT_CopyToDeviceStream_CurrentBytes;
  void* PJRT_TopologyDescription_Create;
  void* PJRT_TopologyDescription_Destroy;
  void* PJRT_TopologyDescription_PlatformName;
  void* PJRT_TopologyDescription_PlatformVersion;
  void* PJRT_TopologyDescription_GetDeviceDescriptions;
  void* PJRT_TopologyDescription_Serialize;
  void* PJRT_TopologyDescription_Attributes;
  void* PJRT_Compile;
  void* PJRT_Executable_OutputElementTypes;
  void* PJRT_Executable_OutputDimensions;
  void* PJRT_Buffer_CopyToMemory;
  void* PJRT_Client_CreateViewOfDeviceBuffer;
  void* PJRT_Executable_Fingerprint;
  void* PJRT_Client_TopologyDescription;
  void* PJRT_Executable_GetCompiledMemoryStats;
  void* PJRT_Memory_Kind_Id;
  void* PJRT_ExecuteContext_Create;
  void* PJRT_ExecuteContext_Destroy;
  void* PJRT_Buffer_CopyRawToHost;
  void* PJRT_AsyncHostToDeviceTransferManager_Destroy;
  void* PJRT_AsyncHostToDeviceTransferManager_TransferData;
  void* PJRT_Client_CreateBuffersForAsyncHostToDevice;
  void* PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer;
  void* PJRT_AsyncHostToDeviceTransferManager_Device;
  void* PJRT_AsyncHostToDeviceTransferManager_BufferCount;
  void* PJRT_AsyncHostToDeviceTransferManager_BufferSize;
  void* PJRT_AsyncHostToDeviceTransferManager_SetBufferError;
  void* PJRT_AsyncHostToDeviceTransferManager_AddMetadata;
  void* PJRT_Client_DmaMap;
  void* PJRT_Client_DmaUnmap;
  void* PJRT_Client_CreateUninitializedBuffer;
  void* PJRT_Client_UpdateGlobalProcessInfo;
  void* PJRT_TopologyDescription_Deserialize;
  void* PJRT_Client_CreateAliasBuffer;
  void* PJRT_Client_FulfillAliasBuffer;
  void* PJRT_LoadedExecutable_GetDeviceAssignment;
  void* PJRT_Client_CreateErrorBuffer;
  void* PJRT_AsyncHostToDeviceTransferManager_TransferLiteral;
  void* PJRT_Buffer_CopyRawToHostFuture;
  void* PJRT_Device_PoisonExecution;
  void* PJRT_Device_CreateAsyncTrackingEvent;
  void* PJRT_AsyncTrackingEvent_Destroy;
  void* PJRT_Executable_GetCompileOptions;
  void* PJRT_Buffer_DonateWithControlDependency;
  void* PJRT_Event_Create;
  void* PJRT_Event_Set;
  void* PJRT_Device_GetAttributes;
  void* PJRT_Client_Load;
  void* PJRT_LoadedExecutable_AddressableDeviceLogicalIds;
  void* PJRT_Buffer_Bitcast;
  void* PJRT_Error_ForEachPayload;
  void* PJRT_TopologyDescription_Fingerprint;
  void* PJRT_Executable_ParameterMemoryKinds;
  void* PJRT_Device_ClearMemoryStats;
  void* PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace;
  void* PJRT_TopologyDescription_GetMemorySpaceKindIds;
} PJRT_Api;

typedef struct {
  PJRT_Extension_Base base;
  void* PJRT_Layouts_MemoryLayout_Destroy;
  void* PJRT_Layouts_MemoryLayout_Serialize;
  void* PJRT_Layouts_PJRT_Client_GetDefaultLayout;
  void* PJRT_Layouts_PJRT_Buffer_MemoryLayout;
  void* PJRT_Layouts_PJRT_Topology_GetDefaultLayout;
  void* PJRT_Layouts_PJRT_Executable_GetOutputLayouts;
  void* PJRT_Layouts_PJRT_Executable_GetParameterLayouts;
} PJRT_Layouts_Extension;

/* name of the struct, name of the field ('' is the struct's size), offset or size */
typedef struct { const char* name; const char* field; size_t value; } tilestep_layout_fact;
static const tilestep_layout_fact tilestep_layout_facts[] = {
  {"PJRT_Extension_Base", "", sizeof(PJRT_Extension_Base)},
  {"PJRT_Extension_Base", "struct_size", offsetof(PJRT_Extension_Base, struct_size)},
  {"PJRT_Extension_Base", "type", offsetof(PJRT_Extension_Base, type)},
  {"PJRT_Extension_Base", "next", offsetof(PJRT_Extension_Base, next)},
  {"PJRT_Api_Version", "", sizeof(PJRT_Api_Version)},
  {"PJRT_Api_Version", "struct_size", offsetof(PJRT_Api_Version, struct_size)},
  {"PJRT_Api_Version", "extension_start", offsetof(PJRT_Api_Version, extension_start)},
  {"PJRT_Api_Version", "major_version", offsetof(PJRT_Api_Version, major_version)},
  {"PJRT_Api_Version", "minor_version", offsetof(PJRT_Api_Version, minor_version)},
  {"PJRT_Error_Destroy_Args", "", sizeof(PJRT_Error_Destroy_Args)},
  {"PJRT_Error_Destroy_Args", "struct_size", offsetof(PJRT_Error_Destroy_Args, struct_size)},
  {"PJRT_Error_Destroy_Args", "extension_start", offsetof(PJRT_Error_Destroy_Args, extension_start)},
  {"PJRT_Error_Destroy_Args", "error", offsetof(PJRT_Error_Destroy_Args, error)},
  {"PJRT_Error_Message_Args", "", sizeof(PJRT_Error_Message_Args)},
  {"PJRT_Error_Message_Args", "struct_size", offsetof(PJRT_Error_Message_Args, struct_size)},
  {"PJRT_Error_Message_Args", "extension_start", offsetof(PJRT_Error_Message_Args, extension_start)},
  {"PJRT_Error_Message_Args", "error", offsetof(PJRT_Error_Message_Args, error)},
  {"PJRT_Error_Message_Args", "message", offsetof(PJRT_Error_Message_Args, message)},
  {"PJRT_Error_Message_Args", "message_size", offsetof(PJRT_Error_Message_Args, message_size)},
  {"PJRT_Error_FunctionTable", "", sizeof(PJRT_Error_FunctionTable)},
  {"PJRT_Error_FunctionTable", "struct_size", offsetof(PJRT_Error_FunctionTable, struct_size)},
  {"PJRT_Error_FunctionTable", "instance_size", offsetof(PJRT_Error_FunctionTable, instance_size)},
  {"PJRT_Error_FunctionTable", "extension_start", offsetof(PJRT_Error_FunctionTable, extension_start)},
  {"PJRT_Error_FunctionTable", "destroy", offsetof(PJRT_Error_FunctionTable, destroy)},
  {"PJRT_Error_FunctionTable", "message", offsetof(PJRT_Error_FunctionTable, message)},
  {"PJRT_Error_FunctionTable", "get_code", offsetof(PJRT_Error_FunctionTable, get_code)},
  {"PJRT_Error_FunctionTable", "for_each_payload", offsetof(PJRT_Error_FunctionTable, for_each_payload)},
  {"PJRT_Error", "", sizeof(PJRT_Error)},
  {"PJRT_Error", "vtable", offsetof(PJRT_Error, vtable)},
  {"PJRT_Error_GetCode_Args", "", sizeof(PJRT_Error_GetCode_Args)},
  {"PJRT_Error_GetCode_Args", "struct_size", offsetof(PJRT_Error_GetCode_Args, struct_size)},
  {"PJRT_Error_GetCode_Args", "extension_start", offsetof(PJRT_Error_GetCode_Args, extension_start)},
  {"PJRT_Error_GetCode_Args", "error", offsetof(PJRT_Error_GetCode_Args, error)},
  {"PJRT_Error_GetCode_Args", "code", offsetof(PJRT_Error_GetCode_Args, code)},
  {"PJRT_Error_ForEachPayload_Args", "", sizeof(PJRT_Error_ForEachPayload_Args)},
  {"PJRT_Error_ForEachPayload_Args", "struct_size", offsetof(PJRT_Error_ForEachPayload_Args, struct_size)},
  {"PJRT_Error_ForEachPayload_Args", "extension_start", offsetof(PJRT_Error_ForEachPayload_Args, extension_start)},
  {"PJRT_Error_ForEachPayload_Args", "error", offsetof(PJRT_Error_ForEachPayload_Args, error)},
  {"PJRT_Error_ForEachPayload_Args", "visitor", offsetof(PJRT_Error_ForEachPayload_Args, visitor)},
  {"PJRT_Error_ForEachPayload_Args", "user_arg", offsetof(PJRT_Error_ForEachPayload_Args, user_arg)},
  {"PJRT_NamedValue", "", sizeof(PJRT_NamedValue)},
  {"PJRT_NamedValue", "struct_size", offsetof(PJRT_NamedValue, struct_size)},
  {"PJRT_NamedValue", "extension_start", offsetof(PJRT_NamedValue, extension_start)},
  {"PJRT_NamedValue", "name", offsetof(PJRT_NamedValue, name)},
  {"PJRT_NamedValue", "name_size", offsetof(PJRT_NamedValue, name_size)},
  {"PJRT_NamedValue", "type", offsetof(PJRT_NamedValue, type)},
  {"PJRT_NamedValue", "value_size", offsetof(PJRT_NamedValue, value_size)},
  {"PJRT_NamedValue", "string_value", offsetof(PJRT_NamedValue, string_value)},
  {"PJRT_NamedValue", "int64_value", offsetof(PJRT_NamedValue, int64_value)},
  {"PJRT_NamedValue", "int64_array_value", offsetof(PJRT_NamedValue, int64_array_value)},
  {"PJRT_NamedValue", "float_value", offsetof(PJRT_NamedValue, float_value)},
  {"PJRT_NamedValue", "bool_value", offsetof(PJRT_NamedValue, bool_value)},
  {"PJRT_Plugin_Initialize_Args", "", sizeof(PJRT_Plugin_Initialize_Args)},
  {"PJRT_Plugin_Initialize_Args", "struct_size", offsetof(PJRT_Plugin_Initialize_Args, struct_size)},
  {"PJRT_Plugin_Initialize_Args", "extension_start", offsetof(PJRT_Plugin_Initialize_Args, extension_start)},
  {"PJRT_Plugin_Attributes_Args", "", sizeof(PJRT_Plugin_Attributes_Args)},
  {"PJRT_Plugin_Attributes_Args", "struct_size", offsetof(PJRT_Plugin_Attributes_Args, struct_size)},
  {"PJRT_Plugin_Attributes_Args", "extension_start", offsetof(PJRT_Plugin_Attributes_Args, extension_start)},
  {"PJRT_Plugin_Attributes_Args", "attributes", offsetof(PJRT_Plugin_Attributes_Args, attributes)},
  {"PJRT_Plugin_Attributes_Args", "num_attributes", offsetof(PJRT_Plugin_Attributes_Args, num_attributes)},
  {"PJRT_Event_Destroy_Args", "", sizeof(PJRT_Event_Destroy_Args)},
  {"PJRT_Event_Destroy_Args", "struct_size", offsetof(PJRT_Event_Destroy_Args, struct_size)},
  {"PJRT_Event_Destroy_Args", "extension_start", offsetof(PJRT_Event_Destroy_Args, extension_start)},
  {"PJRT_Event_Destroy_Args", "event", offsetof(PJRT_Event_Destroy_Args, event)},
  {"PJRT_Event_IsReady_Args", "", sizeof(PJRT_Event_IsReady_Args)},
  {"PJRT_Event_IsReady_Args", "struct_size", offsetof(PJRT_Event_IsReady_Args, struct_size)},
  {"PJRT_Event_IsReady_Args", "extension_start", offsetof(PJRT_Event_IsReady_Args, extension_start)},
  {"PJRT_Event_IsReady_Args", "event", offsetof(PJRT_Event_IsReady_Args, event)},
  {"PJRT_Event_IsReady_Args", "is_ready", offsetof(PJRT_Event_IsReady_Args, is_ready)},
  {"PJRT_Event_Error_Args", "", sizeof(PJRT_Event_Error_Args)},
  {"PJRT_Event_Error_Args", "struct_size", offsetof(PJRT_Event_Error_Args, struct_size)},
  {"PJRT_Event_Error_Args", "extension_start", offsetof(PJRT_Event_Error_Args, extension_start)},
  {"PJRT_Event_Error_Args", "event", offsetof(PJRT_Event_Error_Args, event)},
  {"PJRT_Event_Await_Args", "", sizeof(PJRT_Event_Await_Args)},
  {"PJRT_Event_Await_Args", "struct_size", offsetof(PJRT_Event_Await_Args, struct_size)},
  {"PJRT_Event_Await_Args", "extension_start", offsetof(PJRT_Event_Await_Args, extension_start)},
  {"PJRT_Event_Await_Args", "event", offsetof(PJRT_Event_Await_Args, event)},
  {"PJRT_Event_OnReady_Args", "", sizeof(PJRT_Event_OnReady_Args)},
  {"PJRT_Event_OnReady_Args", "struct_size", offsetof(PJRT_Event_OnReady_Args, struct_size)},
  {"PJRT_Event_OnReady_Args", "extension_start", offsetof(PJRT_Event_OnReady_Args, extension_start)},
  {"PJRT_Event_OnReady_Args", "event", offsetof(PJRT_Event_OnReady_Args, event)},
  {"PJRT_Event_OnReady_Args", "callback", offsetof(PJRT_Event_OnReady_Args, callback)},
  {"PJRT_Event_OnReady_Args", "user_arg", offsetof(PJRT_Event_OnReady_Args, user_arg)},
  {"PJRT_Event_Create_Args", "", sizeof(PJRT_Event_Create_Args)},
  {"PJRT_Event_Create_Args", "struct_size", offsetof(PJRT_Event_Create_Args, struct_size)},
  {"PJRT_Event_Create_Args", "extension_start", offsetof(PJRT_Event_Create_Args, extension_start)},
  {"PJRT_Event_Create_Args", "event", offsetof(PJRT_Event_Create_Args, event)},
  {"PJRT_Event_Set_Args", "", sizeof(PJRT_Event_Set_Args)},
  {"PJRT_Event_Set_Args", "struct_size", offsetof(PJRT_Event_Set_Args, struct_size)},
  {"PJRT_Event_Set_Args", "extension_start", offsetof(PJRT_Event_Set_Args, extension_start)},
  {"PJRT_Event_Set_Args", "event", offsetof(PJRT_Event_Set_Args, event)},
  {"PJRT_Event_Set_Args", "error_code", offsetof(PJRT_Event_Set_Args, error_code)},
  {"PJRT_Event_Set_Args", "error_message", offsetof(PJRT_Event_Set_Args, error_message)},
  {"PJRT_Event_Set_Args", "error_message_size", offsetof(PJRT_Event_Set_Args, error_message_size)},
  {"PJRT_Memory_FunctionTable", "", sizeof(PJRT_Memory_FunctionTable)},
  {"PJRT_Memory_FunctionTable", "struct_size", offsetof(PJRT_Memory_FunctionTable, struct_size)},
  {"PJRT_Memory_FunctionTable", "extension_start", offsetof(PJRT_Memory_FunctionTable, extension_start)},
  {"PJRT_Memory_FunctionTable", "instance_struct_size", offsetof(PJRT_Memory_FunctionTable, instance_struct_size)},
  {"PJRT_Memory_FunctionTable", "get_user_data", offsetof(PJRT_Memory_FunctionTable, get_user_data)},
  {"PJRT_Memory_FunctionTable", "set_user_data", offsetof(PJRT_Memory_FunctionTable, set_user_data)},
  {"PJRT_Memory", "", sizeof(PJRT_Memory)},
  {"PJRT_Memory", "vtable", offsetof(PJRT_Memory, vtable)},
  {"PJRT_Client_Create_Args", "", sizeof(PJRT_Client_Create_Args)},
  {"PJRT_Client_Create_Args", "struct_size", offsetof(PJRT_Client_Create_Args, struct_size)},
  {"PJRT_Client_Create_Args", "extension_start", offsetof(PJRT_Client_Create_Args, extension_start)},
  {"PJRT_Client_Create_Args", "create_options", offsetof(PJRT_Client_Create_Args, create_options)},
  {"PJRT_Client_Create_Args", "num_options", offsetof(PJRT_Client_Create_Args, num_options)},
  {"PJRT_Client_Create_Args", "kv_get_callback", offsetof(PJRT_Client_Create_Args, kv_get_callback)},
  {"PJRT_Client_Create_Args", "kv_get_user_arg", offsetof(PJRT_Client_Create_Args, kv_get_user_arg)},
  {"PJRT_Client_Create_Args", "kv_put_callback", offsetof(PJRT_Client_Create_Args, kv_put_callback)},
  {"PJRT_Client_Create_Args", "kv_put_user_arg", offsetof(PJRT_Client_Create_Args, kv_put_user_arg)},
  {"PJRT_Client_Create_Args", "client", offsetof(PJRT_Client_Create_Args, client)},
  {"PJRT_Client_Create_Args", "kv_try_get_callback", offsetof(PJRT_Client_Create_Args, kv_try_get_callback)},
  {"PJRT_Client_Create_Args", "kv_try_get_user_arg", offsetof(PJRT_Client_Create_Args, kv_try_get_user_arg)},
  {"PJRT_Client_Destroy_Args", "", sizeof(PJRT_Client_Destroy_Args)},
  {"PJRT_Client_Destroy_Args", "struct_size", offsetof(PJRT_Client_Destroy_Args, struct_size)},
  {"PJRT_Client_Destroy_Args", "extension_start", offsetof(PJRT_Client_Destroy_Args, extension_start)},
  {"PJRT_Client_Destroy_Args", "client", offsetof(PJRT_Client_Destroy_Args, client)},
  {"PJRT_Client_PlatformName_Args", "", sizeof(PJRT_Client_PlatformName_Args)},
  {"PJRT_Client_PlatformName_Args", "struct_size", offsetof(PJRT_Client_PlatformName_Args, struct_size)},
  {"PJRT_Client_PlatformName_Args", "extension_start", offsetof(PJRT_Client_PlatformName_Args, extension_start)},
  {"PJRT_Client_PlatformName_Args", "client", offsetof(PJRT_Client_PlatformName_Args, client)},
  {"PJRT_Client_PlatformName_Args", "platform_name", offsetof(PJRT_Client_PlatformName_Args, platform_name)},
  {"PJRT_Client_PlatformName_Args", "platform_name_size", offsetof(PJRT_Client_PlatformName_Args, platform_name_size)},
  {"PJRT_Client_ProcessIndex_Args", "", sizeof(PJRT_Client_ProcessIndex_Args)},
  {"PJRT_Client_ProcessIndex_Args", "struct_size", offsetof(PJRT_Client_ProcessIndex_Args, struct_size)},
  {"PJRT_Client_ProcessIndex_Args", "extension_start", offsetof(PJRT_Client_ProcessIndex_Args, extension_start)},
  {"PJRT_Client_ProcessIndex_Args", "client", offsetof(PJRT_Client_ProcessIndex_Args, client)},
  {"PJRT_Client_ProcessIndex_Args", "process_index", offsetof(PJRT_Client_ProcessIndex_Args, process_index)},
  {"PJRT_Client_PlatformVersion_Args", "", sizeof(PJRT_Client_PlatformVersion_Args)},
  {"PJRT_Client_PlatformVersion_Args", "struct_size", offsetof(PJRT_Client_PlatformVersion_Args, struct_size)},
  {"PJRT_Client_PlatformVersion_Args", "extension_start", offsetof(PJRT_Client_PlatformVersion_Args, extension_start)},
  {"PJRT_Client_PlatformVersion_Args", "client", offsetof(PJRT_Client_PlatformVersion_Args, client)},
  {"PJRT_Client_PlatformVersion_Args", "platform_version", offsetof(PJRT_Client_PlatformVersion_Args, platform_version)},
  {"PJRT_Client_PlatformVersion_Args", "platform_version_size", offsetof(PJRT_Client_PlatformVersion_Args, platform_version_size)},
  {"PJRT_Client_TopologyDescription_Args", "", sizeof(PJRT_Client_TopologyDescription_Args)},
  {"PJRT_Client_TopologyDescription_Args", "struct_size", offsetof(PJRT_Client_TopologyDescription_Args, struct_size)},
  {"PJRT_Client_TopologyDescription_Args", "extension_start", offsetof(PJRT_Client_TopologyDescription_Args, extension_start)},
  {"PJRT_Client_TopologyDescription_Args", "client", offsetof(PJRT_Client_TopologyDescription_Args, client)},
  {"PJRT_Client_TopologyDescription_Args", "topology", offsetof(PJRT_Client_TopologyDescription_Args, topology)},
  {"PJRT_Client_Devices_Args", "", sizeof(PJRT_Client_Devices_Args)},
  {"PJRT_Client_Devices_Args", "struct_size", offsetof(PJRT_Client_Devices_Args, struct_size)},
  {"PJRT_Client_Devices_Args", "extension_start", offsetof(PJRT_Client_Devices_Args, extension_start)},
  {"PJRT_Client_Devices_Args", "client", offsetof(PJRT_Client_Devices_Args, client)},
  {"PJRT_Client_Devices_Args", "devices", offsetof(PJRT_Client_Devices_Args, devices)},
  {"PJRT_Client_Devices_Args", "num_devices", offsetof(PJRT_Client_Devices_Args, num_devices)},
  {"PJRT_Client_AddressableDevices_Args", "", sizeof(PJRT_Client_AddressableDevices_Args)},
  {"PJRT_Client_AddressableDevices_Args", "struct_size", offsetof(PJRT_Client_AddressableDevices_Args, struct_size)},
  {"PJRT_Client_AddressableDevices_Args", "extension_start", offsetof(PJRT_Client_AddressableDevices_Args, extension_start)},
  {"PJRT_Client_AddressableDevices_Args", "client", offsetof(PJRT_Client_AddressableDevices_Args, client)},
  {"PJRT_Client_AddressableDevices_Args", "addressable_devices", offsetof(PJRT_Client_AddressableDevices_Args, addressable_devices)},
  {"PJRT_Client_AddressableDevices_Args", "num_addressable_devices", offsetof(PJRT_Client_AddressableDevices_Args, num_addressable_devices)},
  {"PJRT_Client_LookupDevice_Args", "", sizeof(PJRT_Client_LookupDevice_Args)},
  {"PJRT_Client_LookupDevice_Args", "struct_size", offsetof(PJRT_Client_LookupDevice_Args, struct_size)},
  {"PJRT_Client_LookupDevice_Args", "extension_start", offsetof(PJRT_Client_LookupDevice_Args, extension_start)},
  {"PJRT_Client_LookupDevice_Args", "client", offsetof(PJRT_Client_LookupDevice_Args, client)},
  {"PJRT_Client_LookupDevice_Args", "id", offsetof(PJRT_Client_LookupDevice_Args, id)},
  {"PJRT_Client_LookupDevice_Args", "device", offsetof(PJRT_Client_LookupDevice_Args, device)},
  {"PJRT_Client_LookupAddressableDevice_Args", "", sizeof(PJRT_Client_LookupAddressableDevice_Args)},
  {"PJRT_Client_LookupAddressableDevice_Args", "struct_size", offsetof(PJRT_Client_LookupAddressableDevice_Args, struct_size)},
  {"PJRT_Client_LookupAddressableDevice_Args", "extension_start", offsetof(PJRT_Client_LookupAddressableDevice_Args, extension_start)},
  {"PJRT_Client_LookupAddressableDevice_Args", "client", offsetof(PJRT_Client_LookupAddressableDevice_Args, client)},
  {"PJRT_Client_LookupAddressableDevice_Args", "local_hardware_id", offsetof(PJRT_Client_LookupAddressableDevice_Args, local_hardware_id)},
  {"PJRT_Client_LookupAddressableDevice_Args", "addressable_device", offsetof(PJRT_Client_LookupAddressableDevice_Args, addressable_device)},
  {"PJRT_Client_AddressableMemories_Args", "", sizeof(PJRT_Client_AddressableMemories_Args)},
  {"PJRT_Client_AddressableMemories_Args", "struct_size", offsetof(PJRT_Client_AddressableMemories_Args, struct_size)},
  {"PJRT_Client_AddressableMemories_Args", "extension_start", offsetof(PJRT_Client_AddressableMemories_Args, extension_start)},
  {"PJRT_Client_AddressableMemories_Args", "client", offsetof(PJRT_Client_AddressableMemories_Args, client)},
  {"PJRT_Client_AddressableMemories_Args", "addressable_memories", offsetof(PJRT_Client_AddressableMemories_Args, addressable_memories)},
  {"PJRT_Client_AddressableMemories_Args", "num_addressable_memories", offsetof(PJRT_Client_AddressableMemories_Args, num_addressable_memories)},
  {"PJRT_Program", "", sizeof(PJRT_Program)},
  {"PJRT_Program", "struct_size", offsetof(PJRT_Program, struct_size)},
  {"PJRT_Program", "extension_start", offsetof(PJRT_Program, extension_start)},
  {"PJRT_Program", "code", offsetof(PJRT_Program, code)},
  {"PJRT_Program", "code_size", offsetof(PJRT_Program, code_size)},
  {"PJRT_Program", "format", offsetof(PJRT_Program, format)},
  {"PJRT_Program", "format_size", offsetof(PJRT_Program, format_size)},
  {"PJRT_Client_Compile_Args", "", sizeof(PJRT_Client_Compile_Args)},
  {"PJRT_Client_Compile_Args", "struct_size", offsetof(PJRT_Client_Compile_Args, struct_size)},
  {"PJRT_Client_Compile_Args", "extension_start", offsetof(PJRT_Client_Compile_Args, extension_start)},
  {"PJRT_Client_Compile_Args", "client", offsetof(PJRT_Client_Compile_Args, client)},
  {"PJRT_Client_Compile_Args", "program", offsetof(PJRT_Client_Compile_Args, program)},
  {"PJRT_Client_Compile_Args", "compile_options", offsetof(PJRT_Client_Compile_Args, compile_options)},
  {"PJRT_Client_Compile_Args", "compile_options_size", offsetof(PJRT_Client_Compile_Args, compile_options_size)},
  {"PJRT_Client_Compile_Args", "executable", offsetof(PJRT_Client_Compile_Args, executable)},
  {"PJRT_Client_Load_Args", "", sizeof(PJRT_Client_Load_Args)},
  {"PJRT_Client_Load_Args", "struct_size", offsetof(PJRT_Client_Load_Args, struct_size)},
  {"PJRT_Client_Load_Args", "extension_start", offsetof(PJRT_Client_Load_Args, extension_start)},
  {"PJRT_Client_Load_Args", "client", offsetof(PJRT_Client_Load_Args, client)},
  {"PJRT_Client_Load_Args", "executable", offsetof(PJRT_Client_Load_Args, executable)},
  {"PJRT_Client_Load_Args", "compile_options", offsetof(PJRT_Client_Load_Args, compile_options)},
  {"PJRT_Client_Load_Args", "compile_options_size", offsetof(PJRT_Client_Load_Args, compile_options_size)},
  {"PJRT_Client_Load_Args", "loaded_executable", offsetof(PJRT_Client_Load_Args, loaded_executable)},
  {"PJRT_Client_DefaultDeviceAssignment_Args", "", sizeof(PJRT_Client_DefaultDeviceAssignment_Args)},
  {"PJRT_Client_DefaultDeviceAssignment_Args", "struct_size", offsetof(PJRT_Client_DefaultDeviceAssignment_Args, struct_size)},
  {"PJRT_Client_DefaultDeviceAssignment_Args", "extension_start", offsetof(PJRT_Client_DefaultDeviceAssignment_Args, extension_start)},
  {"PJRT_Client_DefaultDeviceAssignment_Args", "client", offsetof(PJRT_Client_DefaultDeviceAssignment_Args, client)},
  {"PJRT_Client_DefaultDeviceAssignment_Args", "num_replicas", offsetof(PJRT_Client_DefaultDeviceAssignment_Args, num_replicas)},
  {"PJRT_Client_DefaultDeviceAssignment_Args", "num_partitions", offsetof(PJRT_Client_DefaultDeviceAssignment_Args, num_partitions)},
  {"PJRT_Client_DefaultDeviceAssignment_Args", "default_assignment_size", offsetof(PJRT_Client_DefaultDeviceAssignment_Args, default_assignment_size)},
  {"PJRT_Client_DefaultDeviceAssignment_Args", "default_assignment", offsetof(PJRT_Client_DefaultDeviceAssignment_Args, default_assignment)},
  {"PJRT_Buffer_MemoryLayout_Tiled", "", sizeof(PJRT_Buffer_MemoryLayout_Tiled)},
  {"PJRT_Buffer_MemoryLayout_Tiled", "struct_size", offsetof(PJRT_Buffer_MemoryLayout_Tiled, struct_size)},
  {"PJRT_Buffer_MemoryLayout_Tiled", "extension_start", offsetof(PJRT_Buffer_MemoryLayout_Tiled, extension_start)},
  {"PJRT_Buffer_MemoryLayout_Tiled", "minor_to_major", offsetof(PJRT_Buffer_MemoryLayout_Tiled, minor_to_major)},
  {"PJRT_Buffer_MemoryLayout_Tiled", "minor_to_major_size", offsetof(PJRT_Buffer_MemoryLayout_Tiled, minor_to_major_size)},
  {"PJRT_Buffer_MemoryLayout_Tiled", "tile_dims", offsetof(PJRT_Buffer_MemoryLayout_Tiled, tile_dims)},
  {"PJRT_Buffer_MemoryLayout_Tiled", "tile_dim_sizes", offsetof(PJRT_Buffer_MemoryLayout_Tiled, tile_dim_sizes)},
  {"PJRT_Buffer_MemoryLayout_Tiled", "num_tiles", offsetof(PJRT_Buffer_MemoryLayout_Tiled, num_tiles)},
  {"PJRT_Buffer_MemoryLayout_Strides", "", sizeof(PJRT_Buffer_MemoryLayout_Strides)},
  {"PJRT_Buffer_MemoryLayout_Strides", "struct_size", offsetof(PJRT_Buffer_MemoryLayout_Strides, struct_size)},
  {"PJRT_Buffer_MemoryLayout_Strides", "extension_start", offsetof(PJRT_Buffer_MemoryLayout_Strides, extension_start)},
  {"PJRT_Buffer_MemoryLayout_Strides", "byte_strides", offsetof(PJRT_Buffer_MemoryLayout_Strides, byte_strides)},
  {"PJRT_Buffer_MemoryLayout_Strides", "num_byte_strides", offsetof(PJRT_Buffer_MemoryLayout_Strides, num_byte_strides)},
  {"PJRT_Buffer_MemoryLayout", "", sizeof(PJRT_Buffer_MemoryLayout)},
  {"PJRT_Buffer_MemoryLayout", "struct_size", offsetof(PJRT_Buffer_MemoryLayout, struct_size)},
  {"PJRT_Buffer_MemoryLayout", "extension_start", offsetof(PJRT_Buffer_MemoryLayout, extension_start)},
  {"PJRT_Buffer_MemoryLayout", "type", offsetof(PJRT_Buffer_MemoryLayout, type)},
  {"PJRT_Buffer_MemoryLayout", "tiled", offsetof(PJRT_Buffer_MemoryLayout, tiled)},
  {"PJRT_Buffer_MemoryLayout", "strides", offsetof(PJRT_Buffer_MemoryLayout, strides)},
  {"PJRT_Client_CreateUninitializedBuffer_Args", "", sizeof(PJRT_Client_CreateUninitializedBuffer_Args)},
  {"PJRT_Client_CreateUninitializedBuffer_Args", "struct_size", offsetof(PJRT_Client_CreateUninitializedBuffer_Args, struct_size)},
  {"PJRT_Client_CreateUninitializedBuffer_Args", "extension_start", offsetof(PJRT_Client_CreateUninitializedBuffer_Args, extension_start)},
  {"PJRT_Client_CreateUninitializedBuffer_Args", "client", offsetof(PJRT_Client_CreateUninitializedBuffer_Args, client)},
  {"PJRT_Client_CreateUninitializedBuffer_Args", "shape_dims", offsetof(PJRT_Client_CreateUninitializedBuffer_Args, shape_dims)},
  {"PJRT_Client_CreateUninitializedBuffer_Args", "shape_num_dims", offsetof(PJRT_Client_CreateUninitializedBuffer_Args, shape_num_dims)},
  {"PJRT_Client_CreateUninitializedBuffer_Args", "shape_element_type", offsetof(PJRT_Client_CreateUninitializedBuffer_Args, shape_element_type)},
  {"PJRT_Client_CreateUninitializedBuffer_Args", "shape_layout", offsetof(PJRT_Client_CreateUninitializedBuffer_Args, shape_layout)},
  {"PJRT_Client_CreateUninitializedBuffer_Args", "device", offsetof(PJRT_Client_CreateUninitializedBuffer_Args, device)},
  {"PJRT_Client_CreateUninitializedBuffer_Args", "memory", offsetof(PJRT_Client_CreateUninitializedBuffer_Args, memory)},
  {"PJRT_Client_CreateUninitializedBuffer_Args", "buffer", offsetof(PJRT_Client_CreateUninitializedBuffer_Args, buffer)},
  {"PJRT_Client_CreateErrorBuffer_Args", "", sizeof(PJRT_Client_CreateErrorBuffer_Args)},
  {"PJRT_Client_CreateErrorBuffer_Args", "struct_size", offsetof(PJRT_Client_CreateErrorBuffer_Args, struct_size)},
  {"PJRT_Client_CreateErrorBuffer_Args", "extension_start", offsetof(PJRT_Client_CreateErrorBuffer_Args, extension_start)},
  {"PJRT_Client_CreateErrorBuffer_Args", "client", offsetof(PJRT_Client_CreateErrorBuffer_Args, client)},
  {"PJRT_Client_CreateErrorBuffer_Args", "error_code", offsetof(PJRT_Client_CreateErrorBuffer_Args, error_code)},
  {"PJRT_Client_CreateErrorBuffer_Args", "error_message", offsetof(PJRT_Client_CreateErrorBuffer_Args, error_message)},
  {"PJRT_Client_CreateErrorBuffer_Args", "error_message_size", offsetof(PJRT_Client_CreateErrorBuffer_Args, error_message_size)},
  {"PJRT_Client_CreateErrorBuffer_Args", "shape_dims", offsetof(PJRT_Client_CreateErrorBuffer_Args, shape_dims)},
  {"PJRT_Client_CreateErrorBuffer_Args", "shape_num_dims", offsetof(PJRT_Client_CreateErrorBuffer_Args, shape_num_dims)},
  {"PJRT_Client_CreateErrorBuffer_Args", "shape_element_type", offsetof(PJRT_Client_CreateErrorBuffer_Args, shape_element_type)},
  {"PJRT_Client_CreateErrorBuffer_Args", "shape_layout", offsetof(PJRT_Client_CreateErrorBuffer_Args, shape_layout)},
  {"PJRT_Client_CreateErrorBuffer_Args", "memory", offsetof(PJRT_Client_CreateErrorBuffer_Args, memory)},
  {"PJRT_Client_CreateErrorBuffer_Args", "buffer", offsetof(PJRT_Client_CreateErrorBuffer_Args, buffer)},
  {"PJRT_Client_CreateErrorBuffer_Args", "payload", offsetof(PJRT_Client_CreateErrorBuffer_Args, payload)},
  {"PJRT_Client_CreateErrorBuffer_Args", "num_payload", offsetof(PJRT_Client_CreateErrorBuffer_Args, num_payload)},
  {"PJRT_Client_BufferFromHostBuffer_Args", "", sizeof(PJRT_Client_BufferFromHostBuffer_Args)},
  {"PJRT_Client_BufferFromHostBuffer_Args", "struct_size", offsetof(PJRT_Client_BufferFromHostBuffer_Args, struct_size)},
  {"PJRT_Client_BufferFromHostBuffer_Args", "extension_start", offsetof(PJRT_Client_BufferFromHostBuffer_Args, extension_start)},
  {"PJRT_Client_BufferFromHostBuffer_Args", "client", offsetof(PJRT_Client_BufferFromHostBuffer_Args, client)},
  {"PJRT_Client_BufferFromHostBuffer_Args", "data", offsetof(PJRT_Client_BufferFromHostBuffer_Args, data)},
  {"PJRT_Client_BufferFromHostBuffer_Args", "type", offsetof(PJRT_Client_BufferFromHostBuffer_Args, type)},
  {"PJRT_Client_BufferFromHostBuffer_Args", "dims", offsetof(PJRT_Client_BufferFromHostBuffer_Args, dims)},
  {"PJRT_Client_BufferFromHostBuffer_Args", "num_dims", offsetof(PJRT_Client_BufferFromHostBuffer_Args, num_dims)},
  {"PJRT_Client_BufferFromHostBuffer_Args", "byte_strides", offsetof(PJRT_Client_BufferFromHostBuffer_Args, byte_strides)},
  {"PJRT_Client_BufferFromHostBuffer_Args", "num_byte_strides", offsetof(PJRT_Client_BufferFromHostBuffer_Args, num_byte_strides)},
  {"PJRT_Client_BufferFromHostBuffer_Args", "host_buffer_semantics", offsetof(PJRT_Client_BufferFromHostBuffer_Args, host_buffer_semantics)},
  {"PJRT_Client_BufferFromHostBuffer_Args", "device", offsetof(PJRT_Client_BufferFromHostBuffer_Args, device)},
  {"PJRT_Client_BufferFromHostBuffer_Args", "memory", offsetof(PJRT_Client_BufferFromHostBuffer_Args, memory)},
  {"PJRT_Client_BufferFromHostBuffer_Args", "device_layout", offsetof(PJRT_Client_BufferFromHostBuffer_Args, device_layout)},
  {"PJRT_Client_BufferFromHostBuffer_Args", "done_with_host_buffer", offsetof(PJRT_Client_BufferFromHostBuffer_Args, done_with_host_buffer)},
  {"PJRT_Client_BufferFromHostBuffer_Args", "buffer", offsetof(PJRT_Client_BufferFromHostBuffer_Args, buffer)},
  {"PJRT_Client_CreateViewOfDeviceBuffer_Args", "", sizeof(PJRT_Client_CreateViewOfDeviceBuffer_Args)},
  {"PJRT_Client_CreateViewOfDeviceBuffer_Args", "struct_size", offsetof(PJRT_Client_CreateViewOfDeviceBuffer_Args, struct_size)},
  {"PJRT_Client_CreateViewOfDeviceBuffer_Args", "extension_start", offsetof(PJRT_Client_CreateViewOfDeviceBuffer_Args, extension_start)},
  {"PJRT_Client_CreateViewOfDeviceBuffer_Args", "client", offsetof(PJRT_Client_CreateViewOfDeviceBuffer_Args, client)},
  {"PJRT_Client_CreateViewOfDeviceBuffer_Args", "device_buffer_ptr", offsetof(PJRT_Client_CreateViewOfDeviceBuffer_Args, device_buffer_ptr)},
  {"PJRT_Client_CreateViewOfDeviceBuffer_Args", "dims", offsetof(PJRT_Client_CreateViewOfDeviceBuffer_Args, dims)},
  {"PJRT_Client_CreateViewOfDeviceBuffer_Args", "num_dims", offsetof(PJRT_Client_CreateViewOfDeviceBuffer_Args, num_dims)},
  {"PJRT_Client_CreateViewOfDeviceBuffer_Args", "element_type", offsetof(PJRT_Client_CreateViewOfDeviceBuffer_Args, element_type)},
  {"PJRT_Client_CreateViewOfDeviceBuffer_Args", "layout", offsetof(PJRT_Client_CreateViewOfDeviceBuffer_Args, layout)},
  {"PJRT_Client_CreateViewOfDeviceBuffer_Args", "device", offsetof(PJRT_Client_CreateViewOfDeviceBuffer_Args, device)},
  {"PJRT_Client_CreateViewOfDeviceBuffer_Args", "on_delete_callback", offsetof(PJRT_Client_CreateViewOfDeviceBuffer_Args, on_delete_callback)},
  {"PJRT_Client_CreateViewOfDeviceBuffer_Args", "on_delete_callback_arg", offsetof(PJRT_Client_CreateViewOfDeviceBuffer_Args, on_delete_callback_arg)},
  {"PJRT_Client_CreateViewOfDeviceBuffer_Args", "stream", offsetof(PJRT_Client_CreateViewOfDeviceBuffer_Args, stream)},
  {"PJRT_Client_CreateViewOfDeviceBuffer_Args", "buffer", offsetof(PJRT_Client_CreateViewOfDeviceBuffer_Args, buffer)},
  {"PJRT_Client_CreateViewOfDeviceBuffer_Args", "memory", offsetof(PJRT_Client_CreateViewOfDeviceBuffer_Args, memory)},
  {"PJRT_ShapeSpec", "", sizeof(PJRT_ShapeSpec)},
  {"PJRT_ShapeSpec", "struct_size", offsetof(PJRT_ShapeSpec, struct_size)},
  {"PJRT_ShapeSpec", "extension_start", offsetof(PJRT_ShapeSpec, extension_start)},
  {"PJRT_ShapeSpec", "dims", offsetof(PJRT_ShapeSpec, dims)},
  {"PJRT_ShapeSpec", "num_dims", offsetof(PJRT_ShapeSpec, num_dims)},
  {"PJRT_ShapeSpec", "element_type", offsetof(PJRT_ShapeSpec, element_type)},
  {"PJRT_DeviceDescription_Id_Args", "", sizeof(PJRT_DeviceDescription_Id_Args)},
  {"PJRT_DeviceDescription_Id_Args", "struct_size", offsetof(PJRT_DeviceDescription_Id_Args, struct_size)},
  {"PJRT_DeviceDescription_Id_Args", "extension_start", offsetof(PJRT_DeviceDescription_Id_Args, extension_start)},
  {"PJRT_DeviceDescription_Id_Args", "device_description", offsetof(PJRT_DeviceDescription_Id_Args, device_description)},
  {"PJRT_DeviceDescription_Id_Args", "id", offsetof(PJRT_DeviceDescription_Id_Args, id)},
  {"PJRT_DeviceDescription_ProcessIndex_Args", "", sizeof(PJRT_DeviceDescription_ProcessIndex_Args)},
  {"PJRT_DeviceDescription_ProcessIndex_Args", "struct_size", offsetof(PJRT_DeviceDescription_ProcessIndex_Args, struct_size)},
  {"PJRT_DeviceDescription_ProcessIndex_Args", "extension_start", offsetof(PJRT_DeviceDescription_ProcessIndex_Args, extension_start)},
  {"PJRT_DeviceDescription_ProcessIndex_Args", "device_description", offsetof(PJRT_DeviceDescription_ProcessIndex_Args, device_description)},
  {"PJRT_DeviceDescription_ProcessIndex_Args", "process_index", offsetof(PJRT_DeviceDescription_ProcessIndex_Args, process_index)},
  {"PJRT_DeviceDescription_Attributes_Args", "", sizeof(PJRT_DeviceDescription_Attributes_Args)},
  {"PJRT_DeviceDescription_Attributes_Args", "struct_size", offsetof(PJRT_DeviceDescription_Attributes_Args, struct_size)},
  {"PJRT_DeviceDescription_Attributes_Args", "extension_start", offsetof(PJRT_DeviceDescription_Attributes_Args, extension_start)},
  {"PJRT_DeviceDescription_Attributes_Args", "device_description", offsetof(PJRT_DeviceDescription_Attributes_Args, device_description)},
  {"PJRT_DeviceDescription_Attributes_Args", "num_attributes", offsetof(PJRT_DeviceDescription_Attributes_Args, num_attributes)},
  {"PJRT_DeviceDescription_Attributes_Args", "attributes", offsetof(PJRT_DeviceDescription_Attributes_Args, attributes)},
  {"PJRT_DeviceDescription_Kind_Args", "", sizeof(PJRT_DeviceDescription_Kind_Args)},
  {"PJRT_DeviceDescription_Kind_Args", "struct_size", offsetof(PJRT_DeviceDescription_Kind_Args, struct_size)},
  {"PJRT_DeviceDescription_Kind_Args", "extension_start", offsetof(PJRT_DeviceDescription_Kind_Args, extension_start)},
  {"PJRT_DeviceDescription_Kind_Args", "device_description", offsetof(PJRT_DeviceDescription_Kind_Args, device_description)},
  {"PJRT_DeviceDescription_Kind_Args", "device_kind", offsetof(PJRT_DeviceDescription_Kind_Args, device_kind)},
  {"PJRT_DeviceDescription_Kind_Args", "device_kind_size", offsetof(PJRT_DeviceDescription_Kind_Args, device_kind_size)},
  {"PJRT_DeviceDescription_DebugString_Args", "", sizeof(PJRT_DeviceDescription_DebugString_Args)},
  {"PJRT_DeviceDescription_DebugString_Args", "struct_size", offsetof(PJRT_DeviceDescription_DebugString_Args, struct_size)},
  {"PJRT_DeviceDescription_DebugString_Args", "extension_start", offsetof(PJRT_DeviceDescription_DebugString_Args, extension_start)},
  {"PJRT_DeviceDescription_DebugString_Args", "device_description", offsetof(PJRT_DeviceDescription_DebugString_Args, device_description)},
  {"PJRT_DeviceDescription_DebugString_Args", "debug_string", offsetof(PJRT_DeviceDescription_DebugString_Args, debug_string)},
  {"PJRT_DeviceDescription_DebugString_Args", "debug_string_size", offsetof(PJRT_DeviceDescription_DebugString_Args, debug_string_size)},
  {"PJRT_DeviceDescription_ToString_Args", "", sizeof(PJRT_DeviceDescription_ToString_Args)},
  {"PJRT_DeviceDescription_ToString_Args", "struct_size", offsetof(PJRT_DeviceDescription_ToString_Args, struct_size)},
  {"PJRT_DeviceDescription_ToString_Args", "extension_start", offsetof(PJRT_DeviceDescription_ToString_Args, extension_start)},
  {"PJRT_DeviceDescription_ToString_Args", "device_description", offsetof(PJRT_DeviceDescription_ToString_Args, device_description)},
  {"PJRT_DeviceDescription_ToString_Args", "to_string", offsetof(PJRT_DeviceDescription_ToString_Args, to_string)},
  {"PJRT_DeviceDescription_ToString_Args", "to_string_size", offsetof(PJRT_DeviceDescription_ToString_Args, to_string_size)},
  {"PJRT_Device_GetDescription_Args", "", sizeof(PJRT_Device_GetDescription_Args)},
  {"PJRT_Device_GetDescription_Args", "struct_size", offsetof(PJRT_Device_GetDescription_Args, struct_size)},
  {"PJRT_Device_GetDescription_Args", "extension_start", offsetof(PJRT_Device_GetDescription_Args, extension_start)},
  {"PJRT_Device_GetDescription_Args", "device", offsetof(PJRT_Device_GetDescription_Args, device)},
  {"PJRT_Device_GetDescription_Args", "device_description", offsetof(PJRT_Device_GetDescription_Args, device_description)},
  {"PJRT_Device_IsAddressable_Args", "", sizeof(PJRT_Device_IsAddressable_Args)},
  {"PJRT_Device_IsAddressable_Args", "struct_size", offsetof(PJRT_Device_IsAddressable_Args, struct_size)},
  {"PJRT_Device_IsAddressable_Args", "extension_start", offsetof(PJRT_Device_IsAddressable_Args, extension_start)},
  {"PJRT_Device_IsAddressable_Args", "device", offsetof(PJRT_Device_IsAddressable_Args, device)},
  {"PJRT_Device_IsAddressable_Args", "is_addressable", offsetof(PJRT_Device_IsAddressable_Args, is_addressable)},
  {"PJRT_Device_LocalHardwareId_Args", "", sizeof(PJRT_Device_LocalHardwareId_Args)},
  {"PJRT_Device_LocalHardwareId_Args", "struct_size", offsetof(PJRT_Device_LocalHardwareId_Args, struct_size)},
  {"PJRT_Device_LocalHardwareId_Args", "extension_start", offsetof(PJRT_Device_LocalHardwareId_Args, extension_start)},
  {"PJRT_Device_LocalHardwareId_Args", "device", offsetof(PJRT_Device_LocalHardwareId_Args, device)},
  {"PJRT_Device_LocalHardwareId_Args", "local_hardware_id", offsetof(PJRT_Device_LocalHardwareId_Args, local_hardware_id)},
  {"PJRT_Device_AddressableMemories_Args", "", sizeof(PJRT_Device_AddressableMemories_Args)},
  {"PJRT_Device_AddressableMemories_Args", "struct_size", offsetof(PJRT_Device_AddressableMemories_Args, struct_size)},
  {"PJRT_Device_AddressableMemories_Args", "extension_start", offsetof(PJRT_Device_AddressableMemories_Args, extension_start)},
  {"PJRT_Device_AddressableMemories_Args", "device", offsetof(PJRT_Device_AddressableMemories_Args, device)},
  {"PJRT_Device_AddressableMemories_Args", "memories", offsetof(PJRT_Device_AddressableMemories_Args, memories)},
  {"PJRT_Device_AddressableMemories_Args", "num_memories", offsetof(PJRT_Device_AddressableMemories_Args, num_memories)},
  {"PJRT_Device_DefaultMemory_Args", "", sizeof(PJRT_Device_DefaultMemory_Args)},
  {"PJRT_Device_DefaultMemory_Args", "struct_size", offsetof(PJRT_Device_DefaultMemory_Args, struct_size)},
  {"PJRT_Device_DefaultMemory_Args", "extension_start", offsetof(PJRT_Device_DefaultMemory_Args, extension_start)},
  {"PJRT_Device_DefaultMemory_Args", "device", offsetof(PJRT_Device_DefaultMemory_Args, device)},
  {"PJRT_Device_DefaultMemory_Args", "memory", offsetof(PJRT_Device_DefaultMemory_Args, memory)},
  {"PJRT_Device_MemoryStats_Args", "", sizeof(PJRT_Device_MemoryStats_Args)},
  {"PJRT_Device_MemoryStats_Args", "struct_size", offsetof(PJRT_Device_MemoryStats_Args, struct_size)},
  {"PJRT_Device_MemoryStats_Args", "extension_start", offsetof(PJRT_Device_MemoryStats_Args, extension_start)},
  {"PJRT_Device_MemoryStats_Args", "device", offsetof(PJRT_Device_MemoryStats_Args, device)},
  {"PJRT_Device_MemoryStats_Args", "bytes_in_use", offsetof(PJRT_Device_MemoryStats_Args, bytes_in_use)},
  {"PJRT_Device_MemoryStats_Args", "peak_bytes_in_use", offsetof(PJRT_Device_MemoryStats_Args, peak_bytes_in_use)},
  {"PJRT_Device_MemoryStats_Args", "peak_bytes_in_use_is_set", offsetof(PJRT_Device_MemoryStats_Args, peak_bytes_in_use_is_set)},
  {"PJRT_Device_MemoryStats_Args", "num_allocs", offsetof(PJRT_Device_MemoryStats_Args, num_allocs)},
  {"PJRT_Device_MemoryStats_Args", "num_allocs_is_set", offsetof(PJRT_Device_MemoryStats_Args, num_allocs_is_set)},
  {"PJRT_Device_MemoryStats_Args", "largest_alloc_size", offsetof(PJRT_Device_MemoryStats_Args, largest_alloc_size)},
  {"PJRT_Device_MemoryStats_Args", "largest_alloc_size_is_set", offsetof(PJRT_Device_MemoryStats_Args, largest_alloc_size_is_set)},
  {"PJRT_Device_MemoryStats_Args", "bytes_limit", offsetof(PJRT_Device_MemoryStats_Args, bytes_limit)},
  {"PJRT_Device_MemoryStats_Args", "bytes_limit_is_set", offsetof(PJRT_Device_MemoryStats_Args, bytes_limit_is_set)},
  {"PJRT_Device_MemoryStats_Args", "bytes_reserved", offsetof(PJRT_Device_MemoryStats_Args, bytes_reserved)},
  {"PJRT_Device_MemoryStats_Args", "bytes_reserved_is_set", offsetof(PJRT_Device_MemoryStats_Args, bytes_reserved_is_set)},
  {"PJRT_Device_MemoryStats_Args", "peak_bytes_reserved", offsetof(PJRT_Device_MemoryStats_Args, peak_bytes_reserved)},
  {"PJRT_Device_MemoryStats_Args", "peak_bytes_reserved_is_set", offsetof(PJRT_Device_MemoryStats_Args, peak_bytes_reserved_is_set)},
  {"PJRT_Device_MemoryStats_Args", "bytes_reservable_limit", offsetof(PJRT_Device_MemoryStats_Args, bytes_reservable_limit)},
  {"PJRT_Device_MemoryStats_Args", "bytes_reservable_limit_is_set", offsetof(PJRT_Device_MemoryStats_Args, bytes_reservable_limit_is_set)},
  {"PJRT_Device_MemoryStats_Args", "largest_free_block_bytes", offsetof(PJRT_Device_MemoryStats_Args, largest_free_block_bytes)},
  {"PJRT_Device_MemoryStats_Args", "largest_free_block_bytes_is_set", offsetof(PJRT_Device_MemoryStats_Args, largest_free_block_bytes_is_set)},
  {"PJRT_Device_MemoryStats_Args", "pool_bytes", offsetof(PJRT_Device_MemoryStats_Args, pool_bytes)},
  {"PJRT_Device_MemoryStats_Args", "pool_bytes_is_set", offsetof(PJRT_Device_MemoryStats_Args, pool_bytes_is_set)},
  {"PJRT_Device_MemoryStats_Args", "peak_pool_bytes", offsetof(PJRT_Device_MemoryStats_Args, peak_pool_bytes)},
  {"PJRT_Device_MemoryStats_Args", "peak_pool_bytes_is_set", offsetof(PJRT_Device_MemoryStats_Args, peak_pool_bytes_is_set)},
  {"PJRT_Device_MemoryStats_Args", "peak_allocated_bytes", offsetof(PJRT_Device_MemoryStats_Args, peak_allocated_bytes)},
  {"PJRT_Device_MemoryStats_Args", "peak_allocated_bytes_is_set", offsetof(PJRT_Device_MemoryStats_Args, peak_allocated_bytes_is_set)},
  {"PJRT_Device_ClearMemoryStats_Args", "", sizeof(PJRT_Device_ClearMemoryStats_Args)},
  {"PJRT_Device_ClearMemoryStats_Args", "struct_size", offsetof(PJRT_Device_ClearMemoryStats_Args, struct_size)},
  {"PJRT_Device_ClearMemoryStats_Args", "extension_start", offsetof(PJRT_Device_ClearMemoryStats_Args, extension_start)},
  {"PJRT_Device_ClearMemoryStats_Args", "device", offsetof(PJRT_Device_ClearMemoryStats_Args, device)},
  {"PJRT_Device_GetAttributes_Args", "", sizeof(PJRT_Device_GetAttributes_Args)},
  {"PJRT_Device_GetAttributes_Args", "struct_size", offsetof(PJRT_Device_GetAttributes_Args, struct_size)},
  {"PJRT_Device_GetAttributes_Args", "extension_start", offsetof(PJRT_Device_GetAttributes_Args, extension_start)},
  {"PJRT_Device_GetAttributes_Args", "device", offsetof(PJRT_Device_GetAttributes_Args, device)},
  {"PJRT_Device_GetAttributes_Args", "attributes", offsetof(PJRT_Device_GetAttributes_Args, attributes)},
  {"PJRT_Device_GetAttributes_Args", "num_attributes", offsetof(PJRT_Device_GetAttributes_Args, num_attributes)},
  {"PJRT_Device_GetAttributes_Args", "device_attributes", offsetof(PJRT_Device_GetAttributes_Args, device_attributes)},
  {"PJRT_Device_GetAttributes_Args", "attributes_deleter", offsetof(PJRT_Device_GetAttributes_Args, attributes_deleter)},
  {"PJRT_Memory_Id_Args", "", sizeof(PJRT_Memory_Id_Args)},
  {"PJRT_Memory_Id_Args", "struct_size", offsetof(PJRT_Memory_Id_Args, struct_size)},
  {"PJRT_Memory_Id_Args", "extension_start", offsetof(PJRT_Memory_Id_Args, extension_start)},
  {"PJRT_Memory_Id_Args", "memory", offsetof(PJRT_Memory_Id_Args, memory)},
  {"PJRT_Memory_Id_Args", "id", offsetof(PJRT_Memory_Id_Args, id)},
  {"PJRT_Memory_Kind_Args", "", sizeof(PJRT_Memory_Kind_Args)},
  {"PJRT_Memory_Kind_Args", "struct_size", offsetof(PJRT_Memory_Kind_Args, struct_size)},
  {"PJRT_Memory_Kind_Args", "extension_start", offsetof(PJRT_Memory_Kind_Args, extension_start)},
  {"PJRT_Memory_Kind_Args", "memory", offsetof(PJRT_Memory_Kind_Args, memory)},
  {"PJRT_Memory_Kind_Args", "kind", offsetof(PJRT_Memory_Kind_Args, kind)},
  {"PJRT_Memory_Kind_Args", "kind_size", offsetof(PJRT_Memory_Kind_Args, kind_size)},
  {"PJRT_Memory_Kind_Id_Args", "", sizeof(PJRT_Memory_Kind_Id_Args)},
  {"PJRT_Memory_Kind_Id_Args", "struct_size", offsetof(PJRT_Memory_Kind_Id_Args, struct_size)},
  {"PJRT_Memory_Kind_Id_Args", "extension_start", offsetof(PJRT_Memory_Kind_Id_Args, extension_start)},
  {"PJRT_Memory_Kind_Id_Args", "memory", offsetof(PJRT_Memory_Kind_Id_Args, memory)},
  {"PJRT_Memory_Kind_Id_Args", "kind_id", offsetof(PJRT_Memory_Kind_Id_Args, kind_id)},
  {"PJRT_Memory_DebugString_Args", "", sizeof(PJRT_Memory_DebugString_Args)},
  {"PJRT_Memory_DebugString_Args", "struct_size", offsetof(PJRT_Memory_DebugString_Args, struct_size)},
  {"PJRT_Memory_DebugString_Args", "extension_start", offsetof(PJRT_Memory_DebugString_Args, extension_start)},
  {"PJRT_Memory_DebugString_Args", "memory", offsetof(PJRT_Memory_DebugString_Args, memory)},
  {"PJRT_Memory_DebugString_Args", "debug_string", offsetof(PJRT_Memory_DebugString_Args, debug_string)},
  {"PJRT_Memory_DebugString_Args", "debug_string_size", offsetof(PJRT_Memory_DebugString_Args, debug_string_size)},
  {"PJRT_Memory_ToString_Args", "", sizeof(PJRT_Memory_ToString_Args)},
  {"PJRT_Memory_ToString_Args", "struct_size", offsetof(PJRT_Memory_ToString_Args, struct_size)},
  {"PJRT_Memory_ToString_Args", "extension_start", offsetof(PJRT_Memory_ToString_Args, extension_start)},
  {"PJRT_Memory_ToString_Args", "memory", offsetof(PJRT_Memory_ToString_Args, memory)},
  {"PJRT_Memory_ToString_Args", "to_string", offsetof(PJRT_Memory_ToString_Args, to_string)},
  {"PJRT_Memory_ToString_Args", "to_string_size", offsetof(PJRT_Memory_ToString_Args, to_string_size)},
  {"PJRT_Memory_AddressableByDevices_Args", "", sizeof(PJRT_Memory_AddressableByDevices_Args)},
  {"PJRT_Memory_AddressableByDevices_Args", "struct_size", offsetof(PJRT_Memory_AddressableByDevices_Args, struct_size)},
  {"PJRT_Memory_AddressableByDevices_Args", "extension_start", offsetof(PJRT_Memory_AddressableByDevices_Args, extension_start)},
  {"PJRT_Memory_AddressableByDevices_Args", "memory", offsetof(PJRT_Memory_AddressableByDevices_Args, memory)},
  {"PJRT_Memory_AddressableByDevices_Args", "devices", offsetof(PJRT_Memory_AddressableByDevices_Args, devices)},
  {"PJRT_Memory_AddressableByDevices_Args", "num_devices", offsetof(PJRT_Memory_AddressableByDevices_Args, num_devices)},
  {"PJRT_ExecuteContext_Create_Args", "", sizeof(PJRT_ExecuteContext_Create_Args)},
  {"PJRT_ExecuteContext_Create_Args", "struct_size", offsetof(PJRT_ExecuteContext_Create_Args, struct_size)},
  {"PJRT_ExecuteContext_Create_Args", "extension_start", offsetof(PJRT_ExecuteContext_Create_Args, extension_start)},
  {"PJRT_ExecuteContext_Create_Args", "context", offsetof(PJRT_ExecuteContext_Create_Args, context)},
  {"PJRT_ExecuteContext_Destroy_Args", "", sizeof(PJRT_ExecuteContext_Destroy_Args)},
  {"PJRT_ExecuteContext_Destroy_Args", "struct_size", offsetof(PJRT_ExecuteContext_Destroy_Args, struct_size)},
  {"PJRT_ExecuteContext_Destroy_Args", "extension_start", offsetof(PJRT_ExecuteContext_Destroy_Args, extension_start)},
  {"PJRT_ExecuteContext_Destroy_Args", "context", offsetof(PJRT_ExecuteContext_Destroy_Args, context)},
  {"PJRT_Executable_Destroy_Args", "", sizeof(PJRT_Executable_Destroy_Args)},
  {"PJRT_Executable_Destroy_Args", "struct_size", offsetof(PJRT_Executable_Destroy_Args, struct_size)},
  {"PJRT_Executable_Destroy_Args", "extension_start", offsetof(PJRT_Executable_Destroy_Args, extension_start)},
  {"PJRT_Executable_Destroy_Args", "executable", offsetof(PJRT_Executable_Destroy_Args, executable)},
  {"PJRT_LoadedExecutable_Destroy_Args", "", sizeof(PJRT_LoadedExecutable_Destroy_Args)},
  {"PJRT_LoadedExecutable_Destroy_Args", "struct_size", offsetof(PJRT_LoadedExecutable_Destroy_Args, struct_size)},
  {"PJRT_LoadedExecutable_Destroy_Args", "extension_start", offsetof(PJRT_LoadedExecutable_Destroy_Args, extension_start)},
  {"PJRT_LoadedExecutable_Destroy_Args", "executable", offsetof(PJRT_LoadedExecutable_Destroy_Args, executable)},
  {"PJRT_LoadedExecutable_GetExecutable_Args", "", sizeof(PJRT_LoadedExecutable_GetExecutable_Args)},
  {"PJRT_LoadedExecutable_GetExecutable_Args", "struct_size", offsetof(PJRT_LoadedExecutable_GetExecutable_Args, struct_size)},
  {"PJRT_LoadedExecutable_GetExecutable_Args", "extension_start", offsetof(PJRT_LoadedExecutable_GetExecutable_Args, extension_start)},
  {"PJRT_LoadedExecutable_GetExecutable_Args", "loaded_executable", offsetof(PJRT_LoadedExecutable_GetExecutable_Args, loaded_executable)},
  {"PJRT_LoadedExecutable_GetExecutable_Args", "executable", offsetof(PJRT_LoadedExecutable_GetExecutable_Args, executable)},
  {"PJRT_LoadedExecutable_GetDeviceAssignment_Args", "", sizeof(PJRT_LoadedExecutable_GetDeviceAssignment_Args)},
  {"PJRT_LoadedExecutable_GetDeviceAssignment_Args", "struct_size", offsetof(PJRT_LoadedExecutable_GetDeviceAssignment_Args, struct_size)},
  {"PJRT_LoadedExecutable_GetDeviceAssignment_Args", "extension_start", offsetof(PJRT_LoadedExecutable_GetDeviceAssignment_Args, extension_start)},
  {"PJRT_LoadedExecutable_GetDeviceAssignment_Args", "executable", offsetof(PJRT_LoadedExecutable_GetDeviceAssignment_Args, executable)},
  {"PJRT_LoadedExecutable_GetDeviceAssignment_Args", "serialized_bytes", offsetof(PJRT_LoadedExecutable_GetDeviceAssignment_Args, serialized_bytes)},
  {"PJRT_LoadedExecutable_GetDeviceAssignment_Args", "serialized_bytes_size", offsetof(PJRT_LoadedExecutable_GetDeviceAssignment_Args, serialized_bytes_size)},
  {"PJRT_LoadedExecutable_GetDeviceAssignment_Args", "serialized_device_assignment", offsetof(PJRT_LoadedExecutable_GetDeviceAssignment_Args, serialized_device_assignment)},
  {"PJRT_LoadedExecutable_GetDeviceAssignment_Args", "serialized_device_assignment_deleter", offsetof(PJRT_LoadedExecutable_GetDeviceAssignment_Args, serialized_device_assignment_deleter)},
  {"PJRT_Executable_Name_Args", "", sizeof(PJRT_Executable_Name_Args)},
  {"PJRT_Executable_Name_Args", "struct_size", offsetof(PJRT_Executable_Name_Args, struct_size)},
  {"PJRT_Executable_Name_Args", "extension_start", offsetof(PJRT_Executable_Name_Args, extension_start)},
  {"PJRT_Executable_Name_Args", "executable", offsetof(PJRT_Executable_Name_Args, executable)},
  {"PJRT_Executable_Name_Args", "executable_name", offsetof(PJRT_Executable_Name_Args, executable_name)},
  {"PJRT_Executable_Name_Args", "executable_name_size", offsetof(PJRT_Executable_Name_Args, executable_name_size)},
  {"PJRT_Executable_NumReplicas_Args", "", sizeof(PJRT_Executable_NumReplicas_Args)},
  {"PJRT_Executable_NumReplicas_Args", "struct_size", offsetof(PJRT_Executable_NumReplicas_Args, struct_size)},
  {"PJRT_Executable_NumReplicas_Args", "extension_start", offsetof(PJRT_Executable_NumReplicas_Args, extension_start)},
  {"PJRT_Executable_NumReplicas_Args", "executable", offsetof(PJRT_Executable_NumReplicas_Args, executable)},
  {"PJRT_Executable_NumReplicas_Args", "num_replicas", offsetof(PJRT_Executable_NumReplicas_Args, num_replicas)},
  {"PJRT_Executable_NumPartitions_Args", "", sizeof(PJRT_Executable_NumPartitions_Args)},
  {"PJRT_Executable_NumPartitions_Args", "struct_size", offsetof(PJRT_Executable_NumPartitions_Args, struct_size)},
  {"PJRT_Executable_NumPartitions_Args", "extension_start", offsetof(PJRT_Executable_NumPartitions_Args, extension_start)},
  {"PJRT_Executable_NumPartitions_Args", "executable", offsetof(PJRT_Executable_NumPartitions_Args, executable)},
  {"PJRT_Executable_NumPartitions_Args", "num_partitions", offsetof(PJRT_Executable_NumPartitions_Args, num_partitions)},
  {"PJRT_LogicalDeviceIds", "", sizeof(PJRT_LogicalDeviceIds)},
  {"PJRT_LogicalDeviceIds", "replica", offsetof(PJRT_LogicalDeviceIds, replica)},
  {"PJRT_LogicalDeviceIds", "partition", offsetof(PJRT_LogicalDeviceIds, partition)},
  {"PJRT_LoadedExecutable_AddressableDevices_Args", "", sizeof(PJRT_LoadedExecutable_AddressableDevices_Args)},
  {"PJRT_LoadedExecutable_AddressableDevices_Args", "struct_size", offsetof(PJRT_LoadedExecutable_AddressableDevices_Args, struct_size)},
  {"PJRT_LoadedExecutable_AddressableDevices_Args", "extension_start", offsetof(PJRT_LoadedExecutable_AddressableDevices_Args, extension_start)},
  {"PJRT_LoadedExecutable_AddressableDevices_Args", "executable", offsetof(PJRT_LoadedExecutable_AddressableDevices_Args, executable)},
  {"PJRT_LoadedExecutable_AddressableDevices_Args", "addressable_devices", offsetof(PJRT_LoadedExecutable_AddressableDevices_Args, addressable_devices)},
  {"PJRT_LoadedExecutable_AddressableDevices_Args", "num_addressable_devices", offsetof(PJRT_LoadedExecutable_AddressableDevices_Args, num_addressable_devices)},
  {"PJRT_LoadedExecutable_AddressableDeviceLogicalIds_Args", "", sizeof(PJRT_LoadedExecutable_AddressableDeviceLogicalIds_Args)},
  {"PJRT_LoadedExecutable_AddressableDeviceLogicalIds_Args", "struct_size", offsetof(PJRT_LoadedExecutable_AddressableDeviceLogicalIds_Args, struct_size)},
  {"PJRT_LoadedExecutable_AddressableDeviceLogicalIds_Args", "extension_start", offsetof(PJRT_LoadedExecutable_AddressableDeviceLogicalIds_Args, extension_start)},
  {"PJRT_LoadedExecutable_AddressableDeviceLogicalIds_Args", "executable", offsetof(PJRT_LoadedExecutable_AddressableDeviceLogicalIds_Args, executable)},
  {"PJRT_LoadedExecutable_AddressableDeviceLogicalIds_Args", "addressable_device_logical_ids", offsetof(PJRT_LoadedExecutable_AddressableDeviceLogicalIds_Args, addressable_device_logical_ids)},
  {"PJRT_LoadedExecutable_AddressableDeviceLogicalIds_Args", "num_addressable_device_logical_ids", offsetof(PJRT_LoadedExecutable_AddressableDeviceLogicalIds_Args, num_addressable_device_logical_ids)},
  {"PJRT_Executable_OptimizedProgram_Args", "", sizeof(PJRT_Executable_OptimizedProgram_Args)},
  {"PJRT_Executable_OptimizedProgram_Args", "struct_size", offsetof(PJRT_Executable_OptimizedProgram_Args, struct_size)},
  {"PJRT_Executable_OptimizedProgram_Args", "extension_start", offsetof(PJRT_Executable_OptimizedProgram_Args, extension_start)},
  {"PJRT_Executable_OptimizedProgram_Args", "executable", offsetof(PJRT_Executable_OptimizedProgram_Args, executable)},
  {"PJRT_Executable_OptimizedProgram_Args", "program", offsetof(PJRT_Executable_OptimizedProgram_Args, program)},
  {"PJRT_LoadedExecutable_Delete_Args", "", sizeof(PJRT_LoadedExecutable_Delete_Args)},
  {"PJRT_LoadedExecutable_Delete_Args", "struct_size", offsetof(PJRT_LoadedExecutable_Delete_Args, struct_size)},
  {"PJRT_LoadedExecutable_Delete_Args", "extension_start", offsetof(PJRT_LoadedExecutable_Delete_Args, extension_start)},
  {"PJRT_LoadedExecutable_Delete_Args", "executable", offsetof(PJRT_LoadedExecutable_Delete_Args, executable)},
  {"PJRT_LoadedExecutable_IsDeleted_Args", "", sizeof(PJRT_LoadedExecutable_IsDeleted_Args)},
  {"PJRT_LoadedExecutable_IsDeleted_Args", "struct_size", offsetof(PJRT_LoadedExecutable_IsDeleted_Args, struct_size)},
  {"PJRT_LoadedExecutable_IsDeleted_Args", "extension_start", offsetof(PJRT_LoadedExecutable_IsDeleted_Args, extension_start)},
  {"PJRT_LoadedExecutable_IsDeleted_Args", "executable", offsetof(PJRT_LoadedExecutable_IsDeleted_Args, executable)},
  {"PJRT_LoadedExecutable_IsDeleted_Args", "is_deleted", offsetof(PJRT_LoadedExecutable_IsDeleted_Args, is_deleted)},
  {"PJRT_ExecuteOptions", "", sizeof(PJRT_ExecuteOptions)},
  {"PJRT_ExecuteOptions", "struct_size", offsetof(PJRT_ExecuteOptions, struct_size)},
  {"PJRT_ExecuteOptions", "extension_start", offsetof(PJRT_ExecuteOptions, extension_start)},
  {"PJRT_ExecuteOptions", "send_callbacks", offsetof(PJRT_ExecuteOptions, send_callbacks)},
  {"PJRT_ExecuteOptions", "recv_callbacks", offsetof(PJRT_ExecuteOptions, recv_callbacks)},
  {"PJRT_ExecuteOptions", "num_send_ops", offsetof(PJRT_ExecuteOptions, num_send_ops)},
  {"PJRT_ExecuteOptions", "num_recv_ops", offsetof(PJRT_ExecuteOptions, num_recv_ops)},
  {"PJRT_ExecuteOptions", "launch_id", offsetof(PJRT_ExecuteOptions, launch_id)},
  {"PJRT_ExecuteOptions", "non_donatable_input_indices", offsetof(PJRT_ExecuteOptions, non_donatable_input_indices)},
  {"PJRT_ExecuteOptions", "num_non_donatable_input_indices", offsetof(PJRT_ExecuteOptions, num_non_donatable_input_indices)},
  {"PJRT_ExecuteOptions", "context", offsetof(PJRT_ExecuteOptions, context)},
  {"PJRT_ExecuteOptions", "call_location", offsetof(PJRT_ExecuteOptions, call_location)},
  {"PJRT_ExecuteOptions", "num_tasks", offsetof(PJRT_ExecuteOptions, num_tasks)},
  {"PJRT_ExecuteOptions", "task_ids", offsetof(PJRT_ExecuteOptions, task_ids)},
  {"PJRT_ExecuteOptions", "incarnation_ids", offsetof(PJRT_ExecuteOptions, incarnation_ids)},
  {"PJRT_ExecuteOptions", "multi_slice_config", offsetof(PJRT_ExecuteOptions, multi_slice_config)},
  {"PJRT_ExecuteOptions", "use_major_to_minor_data_layout_for_callbacks", offsetof(PJRT_ExecuteOptions, use_major_to_minor_data_layout_for_callbacks)},
  {"PJRT_ExecuteOptions", "hlo_output_callbacks", offsetof(PJRT_ExecuteOptions, hlo_output_callbacks)},
  {"PJRT_ExecuteOptions", "num_hlo_output_callbacks", offsetof(PJRT_ExecuteOptions, num_hlo_output_callbacks)},
  {"PJRT_LoadedExecutable_Execute_Args", "", sizeof(PJRT_LoadedExecutable_Execute_Args)},
  {"PJRT_LoadedExecutable_Execute_Args", "struct_size", offsetof(PJRT_LoadedExecutable_Execute_Args, struct_size)},
  {"PJRT_LoadedExecutable_Execute_Args", "extension_start", offsetof(PJRT_LoadedExecutable_Execute_Args, extension_start)},
  {"PJRT_LoadedExecutable_Execute_Args", "executable", offsetof(PJRT_LoadedExecutable_Execute_Args, executable)},
  {"PJRT_LoadedExecutable_Execute_Args", "options", offsetof(PJRT_LoadedExecutable_Execute_Args, options)},
  {"PJRT_LoadedExecutable_Execute_Args", "argument_lists", offsetof(PJRT_LoadedExecutable_Execute_Args, argument_lists)},
  {"PJRT_LoadedExecutable_Execute_Args", "num_devices", offsetof(PJRT_LoadedExecutable_Execute_Args, num_devices)},
  {"PJRT_LoadedExecutable_Execute_Args", "num_args", offsetof(PJRT_LoadedExecutable_Execute_Args, num_args)},
  {"PJRT_LoadedExecutable_Execute_Args", "output_lists", offsetof(PJRT_LoadedExecutable_Execute_Args, output_lists)},
  {"PJRT_LoadedExecutable_Execute_Args", "device_complete_events", offsetof(PJRT_LoadedExecutable_Execute_Args, device_complete_events)},
  {"PJRT_LoadedExecutable_Execute_Args", "execute_device", offsetof(PJRT_LoadedExecutable_Execute_Args, execute_device)},
  {"PJRT_Executable_NumOutputs_Args", "", sizeof(PJRT_Executable_NumOutputs_Args)},
  {"PJRT_Executable_NumOutputs_Args", "struct_size", offsetof(PJRT_Executable_NumOutputs_Args, struct_size)},
  {"PJRT_Executable_NumOutputs_Args", "extension_start", offsetof(PJRT_Executable_NumOutputs_Args, extension_start)},
  {"PJRT_Executable_NumOutputs_Args", "executable", offsetof(PJRT_Executable_NumOutputs_Args, executable)},
  {"PJRT_Executable_NumOutputs_Args", "num_outputs", offsetof(PJRT_Executable_NumOutputs_Args, num_outputs)},
  {"PJRT_Executable_SizeOfGeneratedCodeInBytes_Args", "", sizeof(PJRT_Executable_SizeOfGeneratedCodeInBytes_Args)},
  {"PJRT_Executable_SizeOfGeneratedCodeInBytes_Args", "struct_size", offsetof(PJRT_Executable_SizeOfGeneratedCodeInBytes_Args, struct_size)},
  {"PJRT_Executable_SizeOfGeneratedCodeInBytes_Args", "extension_start", offsetof(PJRT_Executable_SizeOfGeneratedCodeInBytes_Args, extension_start)},
  {"PJRT_Executable_SizeOfGeneratedCodeInBytes_Args", "executable", offsetof(PJRT_Executable_SizeOfGeneratedCodeInBytes_Args, executable)},
  {"PJRT_Executable_SizeOfGeneratedCodeInBytes_Args", "size_in_bytes", offsetof(PJRT_Executable_SizeOfGeneratedCodeInBytes_Args, size_in_bytes)},
  {"PJRT_Executable_Fingerprint_Args", "", sizeof(PJRT_Executable_Fingerprint_Args)},
  {"PJRT_Executable_Fingerprint_Args", "struct_size", offsetof(PJRT_Executable_Fingerprint_Args, struct_size)},
  {"PJRT_Executable_Fingerprint_Args", "extension_start", offsetof(PJRT_Executable_Fingerprint_Args, extension_start)},
  {"PJRT_Executable_Fingerprint_Args", "executable", offsetof(PJRT_Executable_Fingerprint_Args, executable)},
  {"PJRT_Executable_Fingerprint_Args", "executable_fingerprint", offsetof(PJRT_Executable_Fingerprint_Args, executable_fingerprint)},
  {"PJRT_Executable_Fingerprint_Args", "executable_fingerprint_size", offsetof(PJRT_Executable_Fingerprint_Args, executable_fingerprint_size)},
  {"PJRT_Executable_GetCostAnalysis_Args", "", sizeof(PJRT_Executable_GetCostAnalysis_Args)},
  {"PJRT_Executable_GetCostAnalysis_Args", "struct_size", offsetof(PJRT_Executable_GetCostAnalysis_Args, struct_size)},
  {"PJRT_Executable_GetCostAnalysis_Args", "extension_start", offsetof(PJRT_Executable_GetCostAnalysis_Args, extension_start)},
  {"PJRT_Executable_GetCostAnalysis_Args", "executable", offsetof(PJRT_Executable_GetCostAnalysis_Args, executable)},
  {"PJRT_Executable_GetCostAnalysis_Args", "num_properties", offsetof(PJRT_Executable_GetCostAnalysis_Args, num_properties)},
  {"PJRT_Executable_GetCostAnalysis_Args", "properties", offsetof(PJRT_Executable_GetCostAnalysis_Args, properties)},
  {"PJRT_Executable_GetCompiledMemoryStats_Args", "", sizeof(PJRT_Executable_GetCompiledMemoryStats_Args)},
  {"PJRT_Executable_GetCompiledMemoryStats_Args", "struct_size", offsetof(PJRT_Executable_GetCompiledMemoryStats_Args, struct_size)},
  {"PJRT_Executable_GetCompiledMemoryStats_Args", "extension_start", offsetof(PJRT_Executable_GetCompiledMemoryStats_Args, extension_start)},
  {"PJRT_Executable_GetCompiledMemoryStats_Args", "executable", offsetof(PJRT_Executable_GetCompiledMemoryStats_Args, executable)},
  {"PJRT_Executable_GetCompiledMemoryStats_Args", "generated_code_size_in_bytes", offsetof(PJRT_Executable_GetCompiledMemoryStats_Args, generated_code_size_in_bytes)},
  {"PJRT_Executable_GetCompiledMemoryStats_Args", "argument_size_in_bytes", offsetof(PJRT_Executable_GetCompiledMemoryStats_Args, argument_size_in_bytes)},
  {"PJRT_Executable_GetCompiledMemoryStats_Args", "output_size_in_bytes", offsetof(PJRT_Executable_GetCompiledMemoryStats_Args, output_size_in_bytes)},
  {"PJRT_Executable_GetCompiledMemoryStats_Args", "alias_size_in_bytes", offsetof(PJRT_Executable_GetCompiledMemoryStats_Args, alias_size_in_bytes)},
  {"PJRT_Executable_GetCompiledMemoryStats_Args", "temp_size_in_bytes", offsetof(PJRT_Executable_GetCompiledMemoryStats_Args, temp_size_in_bytes)},
  {"PJRT_Executable_GetCompiledMemoryStats_Args", "host_generated_code_size_in_bytes", offsetof(PJRT_Executable_GetCompiledMemoryStats_Args, host_generated_code_size_in_bytes)},
  {"PJRT_Executable_GetCompiledMemoryStats_Args", "host_argument_size_in_bytes", offsetof(PJRT_Executable_GetCompiledMemoryStats_Args, host_argument_size_in_bytes)},
  {"PJRT_Executable_GetCompiledMemoryStats_Args", "host_output_size_in_bytes", offsetof(PJRT_Executable_GetCompiledMemoryStats_Args, host_output_size_in_bytes)},
  {"PJRT_Executable_GetCompiledMemoryStats_Args", "host_alias_size_in_bytes", offsetof(PJRT_Executable_GetCompiledMemoryStats_Args, host_alias_size_in_bytes)},
  {"PJRT_Executable_GetCompiledMemoryStats_Args", "host_temp_size_in_bytes", offsetof(PJRT_Executable_GetCompiledMemoryStats_Args, host_temp_size_in_bytes)},
  {"PJRT_Executable_GetCompiledMemoryStats_Args", "peak_memory_in_bytes", offsetof(PJRT_Executable_GetCompiledMemoryStats_Args, peak_memory_in_bytes)},
  {"PJRT_Executable_GetCompiledMemoryStats_Args", "total_size_in_bytes", offsetof(PJRT_Executable_GetCompiledMemoryStats_Args, total_size_in_bytes)},
  {"PJRT_Executable_GetCompiledMemoryStats_Args", "total_allocation_bytes", offsetof(PJRT_Executable_GetCompiledMemoryStats_Args, total_allocation_bytes)},
  {"PJRT_Executable_GetCompiledMemoryStats_Args", "indefinite_allocations", offsetof(PJRT_Executable_GetCompiledMemoryStats_Args, indefinite_allocations)},
  {"PJRT_Executable_GetCompiledMemoryStats_Args", "peak_unpadded_heap_bytes", offsetof(PJRT_Executable_GetCompiledMemoryStats_Args, peak_unpadded_heap_bytes)},
  {"PJRT_Executable_OutputElementTypes_Args", "", sizeof(PJRT_Executable_OutputElementTypes_Args)},
  {"PJRT_Executable_OutputElementTypes_Args", "struct_size", offsetof(PJRT_Executable_OutputElementTypes_Args, struct_size)},
  {"PJRT_Executable_OutputElementTypes_Args", "extension_start", offsetof(PJRT_Executable_OutputElementTypes_Args, extension_start)},
  {"PJRT_Executable_OutputElementTypes_Args", "executable", offsetof(PJRT_Executable_OutputElementTypes_Args, executable)},
  {"PJRT_Executable_OutputElementTypes_Args", "output_types", offsetof(PJRT_Executable_OutputElementTypes_Args, output_types)},
  {"PJRT_Executable_OutputElementTypes_Args", "num_output_types", offsetof(PJRT_Executable_OutputElementTypes_Args, num_output_types)},
  {"PJRT_Executable_OutputDimensions_Args", "", sizeof(PJRT_Executable_OutputDimensions_Args)},
  {"PJRT_Executable_OutputDimensions_Args", "struct_size", offsetof(PJRT_Executable_OutputDimensions_Args, struct_size)},
  {"PJRT_Executable_OutputDimensions_Args", "extension_start", offsetof(PJRT_Executable_OutputDimensions_Args, extension_start)},
  {"PJRT_Executable_OutputDimensions_Args", "executable", offsetof(PJRT_Executable_OutputDimensions_Args, executable)},
  {"PJRT_Executable_OutputDimensions_Args", "num_outputs", offsetof(PJRT_Executable_OutputDimensions_Args, num_outputs)},
  {"PJRT_Executable_OutputDimensions_Args", "dims", offsetof(PJRT_Executable_OutputDimensions_Args, dims)},
  {"PJRT_Executable_OutputDimensions_Args", "dim_sizes", offsetof(PJRT_Executable_OutputDimensions_Args, dim_sizes)},
  {"PJRT_Executable_ParameterMemoryKinds_Args", "", sizeof(PJRT_Executable_ParameterMemoryKinds_Args)},
  {"PJRT_Executable_ParameterMemoryKinds_Args", "struct_size", offsetof(PJRT_Executable_ParameterMemoryKinds_Args, struct_size)},
  {"PJRT_Executable_ParameterMemoryKinds_Args", "extension_start", offsetof(PJRT_Executable_ParameterMemoryKinds_Args, extension_start)},
  {"PJRT_Executable_ParameterMemoryKinds_Args", "executable", offsetof(PJRT_Executable_ParameterMemoryKinds_Args, executable)},
  {"PJRT_Executable_ParameterMemoryKinds_Args", "num_parameters", offsetof(PJRT_Executable_ParameterMemoryKinds_Args, num_parameters)},
  {"PJRT_Executable_ParameterMemoryKinds_Args", "memory_kinds", offsetof(PJRT_Executable_ParameterMemoryKinds_Args, memory_kinds)},
  {"PJRT_Executable_ParameterMemoryKinds_Args", "memory_kind_sizes", offsetof(PJRT_Executable_ParameterMemoryKinds_Args, memory_kind_sizes)},
  {"PJRT_Executable_OutputMemoryKinds_Args", "", sizeof(PJRT_Executable_OutputMemoryKinds_Args)},
  {"PJRT_Executable_OutputMemoryKinds_Args", "struct_size", offsetof(PJRT_Executable_OutputMemoryKinds_Args, struct_size)},
  {"PJRT_Executable_OutputMemoryKinds_Args", "extension_start", offsetof(PJRT_Executable_OutputMemoryKinds_Args, extension_start)},
  {"PJRT_Executable_OutputMemoryKinds_Args", "executable", offsetof(PJRT_Executable_OutputMemoryKinds_Args, executable)},
  {"PJRT_Executable_OutputMemoryKinds_Args", "num_outputs", offsetof(PJRT_Executable_OutputMemoryKinds_Args, num_outputs)},
  {"PJRT_Executable_OutputMemoryKinds_Args", "memory_kinds", offsetof(PJRT_Executable_OutputMemoryKinds_Args, memory_kinds)},
  {"PJRT_Executable_OutputMemoryKinds_Args", "memory_kind_sizes", offsetof(PJRT_Executable_OutputMemoryKinds_Args, memory_kind_sizes)},
  {"PJRT_Executable_Serialize_Args", "", sizeof(PJRT_Executable_Serialize_Args)},
  {"PJRT_Executable_Serialize_Args", "struct_size", offsetof(PJRT_Executable_Serialize_Args, struct_size)},
  {"PJRT_Executable_Serialize_Args", "extension_start", offsetof(PJRT_Executable_Serialize_Args, extension_start)},
  {"PJRT_Executable_Serialize_Args", "executable", offsetof(PJRT_Executable_Serialize_Args, executable)},
  {"PJRT_Executable_Serialize_Args", "serialized_bytes", offsetof(PJRT_Executable_Serialize_Args, serialized_bytes)},
  {"PJRT_Executable_Serialize_Args", "serialized_bytes_size", offsetof(PJRT_Executable_Serialize_Args, serialized_bytes_size)},
  {"PJRT_Executable_Serialize_Args", "serialized_executable", offsetof(PJRT_Executable_Serialize_Args, serialized_executable)},
  {"PJRT_Executable_Serialize_Args", "serialized_executable_deleter", offsetof(PJRT_Executable_Serialize_Args, serialized_executable_deleter)},
  {"PJRT_Executable_GetCompileOptions_Args", "", sizeof(PJRT_Executable_GetCompileOptions_Args)},
  {"PJRT_Executable_GetCompileOptions_Args", "struct_size", offsetof(PJRT_Executable_GetCompileOptions_Args, struct_size)},
  {"PJRT_Executable_GetCompileOptions_Args", "extension_start", offsetof(PJRT_Executable_GetCompileOptions_Args, extension_start)},
  {"PJRT_Executable_GetCompileOptions_Args", "executable", offsetof(PJRT_Executable_GetCompileOptions_Args, executable)},
  {"PJRT_Executable_GetCompileOptions_Args", "serialized_bytes", offsetof(PJRT_Executable_GetCompileOptions_Args, serialized_bytes)},
  {"PJRT_Executable_GetCompileOptions_Args", "serialized_bytes_size", offsetof(PJRT_Executable_GetCompileOptions_Args, serialized_bytes_size)},
  {"PJRT_Executable_GetCompileOptions_Args", "serialized_compile_options", offsetof(PJRT_Executable_GetCompileOptions_Args, serialized_compile_options)},
  {"PJRT_Executable_GetCompileOptions_Args", "serialized_compile_options_deleter", offsetof(PJRT_Executable_GetCompileOptions_Args, serialized_compile_options_deleter)},
  {"PJRT_LoadOptions", "", sizeof(PJRT_LoadOptions)},
  {"PJRT_LoadOptions", "struct_size", offsetof(PJRT_LoadOptions, struct_size)},
  {"PJRT_LoadOptions", "computation_origin", offsetof(PJRT_LoadOptions, computation_origin)},
  {"PJRT_LoadOptions", "computation_origin_size", offsetof(PJRT_LoadOptions, computation_origin_size)},
  {"PJRT_LoadOptions", "multi_slice_config", offsetof(PJRT_LoadOptions, multi_slice_config)},
  {"PJRT_Executable_DeserializeAndLoad_Args", "", sizeof(PJRT_Executable_DeserializeAndLoad_Args)},
  {"PJRT_Executable_DeserializeAndLoad_Args", "struct_size", offsetof(PJRT_Executable_DeserializeAndLoad_Args, struct_size)},
  {"PJRT_Executable_DeserializeAndLoad_Args", "extension_start", offsetof(PJRT_Executable_DeserializeAndLoad_Args, extension_start)},
  {"PJRT_Executable_DeserializeAndLoad_Args", "client", offsetof(PJRT_Executable_DeserializeAndLoad_Args, client)},
  {"PJRT_Executable_DeserializeAndLoad_Args", "serialized_executable", offsetof(PJRT_Executable_DeserializeAndLoad_Args, serialized_executable)},
  {"PJRT_Executable_DeserializeAndLoad_Args", "serialized_executable_size", offsetof(PJRT_Executable_DeserializeAndLoad_Args, serialized_executable_size)},
  {"PJRT_Executable_DeserializeAndLoad_Args", "loaded_executable", offsetof(PJRT_Executable_DeserializeAndLoad_Args, loaded_executable)},
  {"PJRT_Executable_DeserializeAndLoad_Args", "overridden_serialized_compile_options", offsetof(PJRT_Executable_DeserializeAndLoad_Args, overridden_serialized_compile_options)},
  {"PJRT_Executable_DeserializeAndLoad_Args", "overridden_serialized_compile_options_size", offsetof(PJRT_Executable_DeserializeAndLoad_Args, overridden_serialized_compile_options_size)},
  {"PJRT_Executable_DeserializeAndLoad_Args", "load_options", offsetof(PJRT_Executable_DeserializeAndLoad_Args, load_options)},
  {"PJRT_LoadedExecutable_Fingerprint_Args", "", sizeof(PJRT_LoadedExecutable_Fingerprint_Args)},
  {"PJRT_LoadedExecutable_Fingerprint_Args", "struct_size", offsetof(PJRT_LoadedExecutable_Fingerprint_Args, struct_size)},
  {"PJRT_LoadedExecutable_Fingerprint_Args", "extension_start", offsetof(PJRT_LoadedExecutable_Fingerprint_Args, extension_start)},
  {"PJRT_LoadedExecutable_Fingerprint_Args", "executable", offsetof(PJRT_LoadedExecutable_Fingerprint_Args, executable)},
  {"PJRT_LoadedExecutable_Fingerprint_Args", "executable_fingerprint", offsetof(PJRT_LoadedExecutable_Fingerprint_Args, executable_fingerprint)},
  {"PJRT_LoadedExecutable_Fingerprint_Args", "executable_fingerprint_size", offsetof(PJRT_LoadedExecutable_Fingerprint_Args, executable_fingerprint_size)},
  {"PJRT_Buffer_Destroy_Args", "", sizeof(PJRT_Buffer_Destroy_Args)},
  {"PJRT_Buffer_Destroy_Args", "struct_size", offsetof(PJRT_Buffer_Destroy_Args, struct_size)},
  {"PJRT_Buffer_Destroy_Args", "extension_start", offsetof(PJRT_Buffer_Destroy_Args, extension_start)},
  {"PJRT_Buffer_Destroy_Args", "buffer", offsetof(PJRT_Buffer_Destroy_Args, buffer)},
  {"PJRT_Buffer_ElementType_Args", "", sizeof(PJRT_Buffer_ElementType_Args)},
  {"PJRT_Buffer_ElementType_Args", "struct_size", offsetof(PJRT_Buffer_ElementType_Args, struct_size)},
  {"PJRT_Buffer_ElementType_Args", "extension_start", offsetof(PJRT_Buffer_ElementType_Args, extension_start)},
  {"PJRT_Buffer_ElementType_Args", "buffer", offsetof(PJRT_Buffer_ElementType_Args, buffer)},
  {"PJRT_Buffer_ElementType_Args", "type", offsetof(PJRT_Buffer_ElementType_Args, type)},
  {"PJRT_Buffer_Dimensions_Args", "", sizeof(PJRT_Buffer_Dimensions_Args)},
  {"PJRT_Buffer_Dimensions_Args", "struct_size", offsetof(PJRT_Buffer_Dimensions_Args, struct_size)},
  {"PJRT_Buffer_Dimensions_Args", "extension_start", offsetof(PJRT_Buffer_Dimensions_Args, extension_start)},
  {"PJRT_Buffer_Dimensions_Args", "buffer", offsetof(PJRT_Buffer_Dimensions_Args, buffer)},
  {"PJRT_Buffer_Dimensions_Args", "dims", offsetof(PJRT_Buffer_Dimensions_Args, dims)},
  {"PJRT_Buffer_Dimensions_Args", "num_dims", offsetof(PJRT_Buffer_Dimensions_Args, num_dims)},
  {"PJRT_Buffer_UnpaddedDimensions_Args", "", sizeof(PJRT_Buffer_UnpaddedDimensions_Args)},
  {"PJRT_Buffer_UnpaddedDimensions_Args", "struct_size", offsetof(PJRT_Buffer_UnpaddedDimensions_Args, struct_size)},
  {"PJRT_Buffer_UnpaddedDimensions_Args", "extension_start", offsetof(PJRT_Buffer_UnpaddedDimensions_Args, extension_start)},
  {"PJRT_Buffer_UnpaddedDimensions_Args", "buffer", offsetof(PJRT_Buffer_UnpaddedDimensions_Args, buffer)},
  {"PJRT_Buffer_UnpaddedDimensions_Args", "unpadded_dims", offsetof(PJRT_Buffer_UnpaddedDimensions_Args, unpadded_dims)},
  {"PJRT_Buffer_UnpaddedDimensions_Args", "num_dims", offsetof(PJRT_Buffer_UnpaddedDimensions_Args, num_dims)},
  {"PJRT_Buffer_DynamicDimensionIndices_Args", "", sizeof(PJRT_Buffer_DynamicDimensionIndices_Args)},
  {"PJRT_Buffer_DynamicDimensionIndices_Args", "struct_size", offsetof(PJRT_Buffer_DynamicDimensionIndices_Args, struct_size)},
  {"PJRT_Buffer_DynamicDimensionIndices_Args", "extension_start", offsetof(PJRT_Buffer_DynamicDimensionIndices_Args, extension_start)},
  {"PJRT_Buffer_DynamicDimensionIndices_Args", "buffer", offsetof(PJRT_Buffer_DynamicDimensionIndices_Args, buffer)},
  {"PJRT_Buffer_DynamicDimensionIndices_Args", "dynamic_dim_indices", offsetof(PJRT_Buffer_DynamicDimensionIndices_Args, dynamic_dim_indices)},
  {"PJRT_Buffer_DynamicDimensionIndices_Args", "num_dynamic_dims", offsetof(PJRT_Buffer_DynamicDimensionIndices_Args, num_dynamic_dims)},
  {"PJRT_Buffer_GetMemoryLayout_Args", "", sizeof(PJRT_Buffer_GetMemoryLayout_Args)},
  {"PJRT_Buffer_GetMemoryLayout_Args", "struct_size", offsetof(PJRT_Buffer_GetMemoryLayout_Args, struct_size)},
  {"PJRT_Buffer_GetMemoryLayout_Args", "extension_start", offsetof(PJRT_Buffer_GetMemoryLayout_Args, extension_start)},
  {"PJRT_Buffer_GetMemoryLayout_Args", "buffer", offsetof(PJRT_Buffer_GetMemoryLayout_Args, buffer)},
  {"PJRT_Buffer_GetMemoryLayout_Args", "layout", offsetof(PJRT_Buffer_GetMemoryLayout_Args, layout)},
  {"PJRT_Buffer_ToHostBuffer_Args", "", sizeof(PJRT_Buffer_ToHostBuffer_Args)},
  {"PJRT_Buffer_ToHostBuffer_Args", "struct_size", offsetof(PJRT_Buffer_ToHostBuffer_Args, struct_size)},
  {"PJRT_Buffer_ToHostBuffer_Args", "extension_start", offsetof(PJRT_Buffer_ToHostBuffer_Args, extension_start)},
  {"PJRT_Buffer_ToHostBuffer_Args", "src", offsetof(PJRT_Buffer_ToHostBuffer_Args, src)},
  {"PJRT_Buffer_ToHostBuffer_Args", "host_layout", offsetof(PJRT_Buffer_ToHostBuffer_Args, host_layout)},
  {"PJRT_Buffer_ToHostBuffer_Args", "dst", offsetof(PJRT_Buffer_ToHostBuffer_Args, dst)},
  {"PJRT_Buffer_ToHostBuffer_Args", "dst_size", offsetof(PJRT_Buffer_ToHostBuffer_Args, dst_size)},
  {"PJRT_Buffer_ToHostBuffer_Args", "event", offsetof(PJRT_Buffer_ToHostBuffer_Args, event)},
  {"PJRT_Buffer_OnDeviceSizeInBytes_Args", "", sizeof(PJRT_Buffer_OnDeviceSizeInBytes_Args)},
  {"PJRT_Buffer_OnDeviceSizeInBytes_Args", "struct_size", offsetof(PJRT_Buffer_OnDeviceSizeInBytes_Args, struct_size)},
  {"PJRT_Buffer_OnDeviceSizeInBytes_Args", "extension_start", offsetof(PJRT_Buffer_OnDeviceSizeInBytes_Args, extension_start)},
  {"PJRT_Buffer_OnDeviceSizeInBytes_Args", "buffer", offsetof(PJRT_Buffer_OnDeviceSizeInBytes_Args, buffer)},
  {"PJRT_Buffer_OnDeviceSizeInBytes_Args", "on_device_size_in_bytes", offsetof(PJRT_Buffer_OnDeviceSizeInBytes_Args, on_device_size_in_bytes)},
  {"PJRT_Buffer_Delete_Args", "", sizeof(PJRT_Buffer_Delete_Args)},
  {"PJRT_Buffer_Delete_Args", "struct_size", offsetof(PJRT_Buffer_Delete_Args, struct_size)},
  {"PJRT_Buffer_Delete_Args", "extension_start", offsetof(PJRT_Buffer_Delete_Args, extension_start)},
  {"PJRT_Buffer_Delete_Args", "buffer", offsetof(PJRT_Buffer_Delete_Args, buffer)},
  {"PJRT_Buffer_IsDeleted_Args", "", sizeof(PJRT_Buffer_IsDeleted_Args)},
  {"PJRT_Buffer_IsDeleted_Args", "struct_size", offsetof(PJRT_Buffer_IsDeleted_Args, struct_size)},
  {"PJRT_Buffer_IsDeleted_Args", "extension_start", offsetof(PJRT_Buffer_IsDeleted_Args, extension_start)},
  {"PJRT_Buffer_IsDeleted_Args", "buffer", offsetof(PJRT_Buffer_IsDeleted_Args, buffer)},
  {"PJRT_Buffer_IsDeleted_Args", "is_deleted", offsetof(PJRT_Buffer_IsDeleted_Args, is_deleted)},
  {"PJRT_Buffer_CopyRawToHost_Args", "", sizeof(PJRT_Buffer_CopyRawToHost_Args)},
  {"PJRT_Buffer_CopyRawToHost_Args", "struct_size", offsetof(PJRT_Buffer_CopyRawToHost_Args, struct_size)},
  {"PJRT_Buffer_CopyRawToHost_Args", "extension_start", offsetof(PJRT_Buffer_CopyRawToHost_Args, extension_start)},
  {"PJRT_Buffer_CopyRawToHost_Args", "buffer", offsetof(PJRT_Buffer_CopyRawToHost_Args, buffer)},
  {"PJRT_Buffer_CopyRawToHost_Args", "dst", offsetof(PJRT_Buffer_CopyRawToHost_Args, dst)},
  {"PJRT_Buffer_CopyRawToHost_Args", "offset", offsetof(PJRT_Buffer_CopyRawToHost_Args, offset)},
  {"PJRT_Buffer_CopyRawToHost_Args", "transfer_size", offsetof(PJRT_Buffer_CopyRawToHost_Args, transfer_size)},
  {"PJRT_Buffer_CopyRawToHost_Args", "event", offsetof(PJRT_Buffer_CopyRawToHost_Args, event)},
  {"PJRT_Buffer_CopyRawToHostFuture_Args", "", sizeof(PJRT_Buffer_CopyRawToHostFuture_Args)},
  {"PJRT_Buffer_CopyRawToHostFuture_Args", "struct_size", offsetof(PJRT_Buffer_CopyRawToHostFuture_Args, struct_size)},
  {"PJRT_Buffer_CopyRawToHostFuture_Args", "extension_start", offsetof(PJRT_Buffer_CopyRawToHostFuture_Args, extension_start)},
  {"PJRT_Buffer_CopyRawToHostFuture_Args", "buffer", offsetof(PJRT_Buffer_CopyRawToHostFuture_Args, buffer)},
  {"PJRT_Buffer_CopyRawToHostFuture_Args", "offset", offsetof(PJRT_Buffer_CopyRawToHostFuture_Args, offset)},
  {"PJRT_Buffer_CopyRawToHostFuture_Args", "transfer_size", offsetof(PJRT_Buffer_CopyRawToHostFuture_Args, transfer_size)},
  {"PJRT_Buffer_CopyRawToHostFuture_Args", "event", offsetof(PJRT_Buffer_CopyRawToHostFuture_Args, event)},
  {"PJRT_Buffer_CopyRawToHostFuture_Args", "callback_data", offsetof(PJRT_Buffer_CopyRawToHostFuture_Args, callback_data)},
  {"PJRT_Buffer_CopyRawToHostFuture_Args", "future_ready_callback", offsetof(PJRT_Buffer_CopyRawToHostFuture_Args, future_ready_callback)},
  {"PJRT_Buffer_CopyToDevice_Args", "", sizeof(PJRT_Buffer_CopyToDevice_Args)},
  {"PJRT_Buffer_CopyToDevice_Args", "struct_size", offsetof(PJRT_Buffer_CopyToDevice_Args, struct_size)},
  {"PJRT_Buffer_CopyToDevice_Args", "extension_start", offsetof(PJRT_Buffer_CopyToDevice_Args, extension_start)},
  {"PJRT_Buffer_CopyToDevice_Args", "buffer", offsetof(PJRT_Buffer_CopyToDevice_Args, buffer)},
  {"PJRT_Buffer_CopyToDevice_Args", "dst_device", offsetof(PJRT_Buffer_CopyToDevice_Args, dst_device)},
  {"PJRT_Buffer_CopyToDevice_Args", "dst_buffer", offsetof(PJRT_Buffer_CopyToDevice_Args, dst_buffer)},
  {"PJRT_Buffer_CopyToMemory_Args", "", sizeof(PJRT_Buffer_CopyToMemory_Args)},
  {"PJRT_Buffer_CopyToMemory_Args", "struct_size", offsetof(PJRT_Buffer_CopyToMemory_Args, struct_size)},
  {"PJRT_Buffer_CopyToMemory_Args", "extension_start", offsetof(PJRT_Buffer_CopyToMemory_Args, extension_start)},
  {"PJRT_Buffer_CopyToMemory_Args", "buffer", offsetof(PJRT_Buffer_CopyToMemory_Args, buffer)},
  {"PJRT_Buffer_CopyToMemory_Args", "dst_memory", offsetof(PJRT_Buffer_CopyToMemory_Args, dst_memory)},
  {"PJRT_Buffer_CopyToMemory_Args", "dst_buffer", offsetof(PJRT_Buffer_CopyToMemory_Args, dst_buffer)},
  {"PJRT_Buffer_Bitcast_Args", "", sizeof(PJRT_Buffer_Bitcast_Args)},
  {"PJRT_Buffer_Bitcast_Args", "struct_size", offsetof(PJRT_Buffer_Bitcast_Args, struct_size)},
  {"PJRT_Buffer_Bitcast_Args", "extension_start", offsetof(PJRT_Buffer_Bitcast_Args, extension_start)},
  {"PJRT_Buffer_Bitcast_Args", "buffer", offsetof(PJRT_Buffer_Bitcast_Args, buffer)},
  {"PJRT_Buffer_Bitcast_Args", "element_type", offsetof(PJRT_Buffer_Bitcast_Args, element_type)},
  {"PJRT_Buffer_Bitcast_Args", "dims", offsetof(PJRT_Buffer_Bitcast_Args, dims)},
  {"PJRT_Buffer_Bitcast_Args", "num_dims", offsetof(PJRT_Buffer_Bitcast_Args, num_dims)},
  {"PJRT_Buffer_Bitcast_Args", "device_layout", offsetof(PJRT_Buffer_Bitcast_Args, device_layout)},
  {"PJRT_Buffer_Bitcast_Args", "out_buffer", offsetof(PJRT_Buffer_Bitcast_Args, out_buffer)},
  {"PJRT_Buffer_IsOnCpu_Args", "", sizeof(PJRT_Buffer_IsOnCpu_Args)},
  {"PJRT_Buffer_IsOnCpu_Args", "struct_size", offsetof(PJRT_Buffer_IsOnCpu_Args, struct_size)},
  {"PJRT_Buffer_IsOnCpu_Args", "extension_start", offsetof(PJRT_Buffer_IsOnCpu_Args, extension_start)},
  {"PJRT_Buffer_IsOnCpu_Args", "buffer", offsetof(PJRT_Buffer_IsOnCpu_Args, buffer)},
  {"PJRT_Buffer_IsOnCpu_Args", "is_on_cpu", offsetof(PJRT_Buffer_IsOnCpu_Args, is_on_cpu)},
  {"PJRT_Buffer_Device_Args", "", sizeof(PJRT_Buffer_Device_Args)},
  {"PJRT_Buffer_Device_Args", "struct_size", offsetof(PJRT_Buffer_Device_Args, struct_size)},
  {"PJRT_Buffer_Device_Args", "extension_start", offsetof(PJRT_Buffer_Device_Args, extension_start)},
  {"PJRT_Buffer_Device_Args", "buffer", offsetof(PJRT_Buffer_Device_Args, buffer)},
  {"PJRT_Buffer_Device_Args", "device", offsetof(PJRT_Buffer_Device_Args, device)},
  {"PJRT_Buffer_Memory_Args", "", sizeof(PJRT_Buffer_Memory_Args)},
  {"PJRT_Buffer_Memory_Args", "struct_size", offsetof(PJRT_Buffer_Memory_Args, struct_size)},
  {"PJRT_Buffer_Memory_Args", "extension_start", offsetof(PJRT_Buffer_Memory_Args, extension_start)},
  {"PJRT_Buffer_Memory_Args", "buffer", offsetof(PJRT_Buffer_Memory_Args, buffer)},
  {"PJRT_Buffer_Memory_Args", "memory", offsetof(PJRT_Buffer_Memory_Args, memory)},
  {"PJRT_Buffer_ReadyEvent_Args", "", sizeof(PJRT_Buffer_ReadyEvent_Args)},
  {"PJRT_Buffer_ReadyEvent_Args", "struct_size", offsetof(PJRT_Buffer_ReadyEvent_Args, struct_size)},
  {"PJRT_Buffer_ReadyEvent_Args", "extension_start", offsetof(PJRT_Buffer_ReadyEvent_Args, extension_start)},
  {"PJRT_Buffer_ReadyEvent_Args", "buffer", offsetof(PJRT_Buffer_ReadyEvent_Args, buffer)},
  {"PJRT_Buffer_ReadyEvent_Args", "event", offsetof(PJRT_Buffer_ReadyEvent_Args, event)},
  {"PJRT_Buffer_UnsafePointer_Args", "", sizeof(PJRT_Buffer_UnsafePointer_Args)},
  {"PJRT_Buffer_UnsafePointer_Args", "struct_size", offsetof(PJRT_Buffer_UnsafePointer_Args, struct_size)},
  {"PJRT_Buffer_UnsafePointer_Args", "extension_start", offsetof(PJRT_Buffer_UnsafePointer_Args, extension_start)},
  {"PJRT_Buffer_UnsafePointer_Args", "buffer", offsetof(PJRT_Buffer_UnsafePointer_Args, buffer)},
  {"PJRT_Buffer_UnsafePointer_Args", "buffer_pointer", offsetof(PJRT_Buffer_UnsafePointer_Args, buffer_pointer)},
  {"PJRT_Buffer_IncreaseExternalReferenceCount_Args", "", sizeof(PJRT_Buffer_IncreaseExternalReferenceCount_Args)},
  {"PJRT_Buffer_IncreaseExternalReferenceCount_Args", "struct_size", offsetof(PJRT_Buffer_IncreaseExternalReferenceCount_Args, struct_size)},
  {"PJRT_Buffer_IncreaseExternalReferenceCount_Args", "extension_start", offsetof(PJRT_Buffer_IncreaseExternalReferenceCount_Args, extension_start)},
  {"PJRT_Buffer_IncreaseExternalReferenceCount_Args", "buffer", offsetof(PJRT_Buffer_IncreaseExternalReferenceCount_Args, buffer)},
  {"PJRT_Buffer_DecreaseExternalReferenceCount_Args", "", sizeof(PJRT_Buffer_DecreaseExternalReferenceCount_Args)},
  {"PJRT_Buffer_DecreaseExternalReferenceCount_Args", "struct_size", offsetof(PJRT_Buffer_DecreaseExternalReferenceCount_Args, struct_size)},
  {"PJRT_Buffer_DecreaseExternalReferenceCount_Args", "extension_start", offsetof(PJRT_Buffer_DecreaseExternalReferenceCount_Args, extension_start)},
  {"PJRT_Buffer_DecreaseExternalReferenceCount_Args", "buffer", offsetof(PJRT_Buffer_DecreaseExternalReferenceCount_Args, buffer)},
  {"PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args", "", sizeof(PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args)},
  {"PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args", "struct_size", offsetof(PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args, struct_size)},
  {"PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args", "extension_start", offsetof(PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args, extension_start)},
  {"PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args", "buffer", offsetof(PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args, buffer)},
  {"PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args", "device_memory_ptr", offsetof(PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args, device_memory_ptr)},
  {"PJRT_TopologyDescription_Create_Args", "", sizeof(PJRT_TopologyDescription_Create_Args)},
  {"PJRT_TopologyDescription_Create_Args", "struct_size", offsetof(PJRT_TopologyDescription_Create_Args, struct_size)},
  {"PJRT_TopologyDescription_Create_Args", "extension_start", offsetof(PJRT_TopologyDescription_Create_Args, extension_start)},
  {"PJRT_TopologyDescription_Create_Args", "topology_name", offsetof(PJRT_TopologyDescription_Create_Args, topology_name)},
  {"PJRT_TopologyDescription_Create_Args", "topology_name_size", offsetof(PJRT_TopologyDescription_Create_Args, topology_name_size)},
  {"PJRT_TopologyDescription_Create_Args", "create_options", offsetof(PJRT_TopologyDescription_Create_Args, create_options)},
  {"PJRT_TopologyDescription_Create_Args", "num_options", offsetof(PJRT_TopologyDescription_Create_Args, num_options)},
  {"PJRT_TopologyDescription_Create_Args", "topology", offsetof(PJRT_TopologyDescription_Create_Args, topology)},
  {"PJRT_TopologyDescription_Destroy_Args", "", sizeof(PJRT_TopologyDescription_Destroy_Args)},
  {"PJRT_TopologyDescription_Destroy_Args", "struct_size", offsetof(PJRT_TopologyDescription_Destroy_Args, struct_size)},
  {"PJRT_TopologyDescription_Destroy_Args", "extension_start", offsetof(PJRT_TopologyDescription_Destroy_Args, extension_start)},
  {"PJRT_TopologyDescription_Destroy_Args", "topology", offsetof(PJRT_TopologyDescription_Destroy_Args, topology)},
  {"PJRT_TopologyDescription_PlatformVersion_Args", "", sizeof(PJRT_TopologyDescription_PlatformVersion_Args)},
  {"PJRT_TopologyDescription_PlatformVersion_Args", "struct_size", offsetof(PJRT_TopologyDescription_PlatformVersion_Args, struct_size)},
  {"PJRT_TopologyDescription_PlatformVersion_Args", "extension_start", offsetof(PJRT_TopologyDescription_PlatformVersion_Args, extension_start)},
  {"PJRT_TopologyDescription_PlatformVersion_Args", "topology", offsetof(PJRT_TopologyDescription_PlatformVersion_Args, topology)},
  {"PJRT_TopologyDescription_PlatformVersion_Args", "platform_version", offsetof(PJRT_TopologyDescription_PlatformVersion_Args, platform_version)},
  {"PJRT_TopologyDescription_PlatformVersion_Args", "platform_version_size", offsetof(PJRT_TopologyDescription_PlatformVersion_Args, platform_version_size)},
  {"PJRT_TopologyDescription_PlatformName_Args", "", sizeof(PJRT_TopologyDescription_PlatformName_Args)},
  {"PJRT_TopologyDescription_PlatformName_Args", "struct_size", offsetof(PJRT_TopologyDescription_PlatformName_Args, struct_size)},
  {"PJRT_TopologyDescription_PlatformName_Args", "extension_start", offsetof(PJRT_TopologyDescription_PlatformName_Args, extension_start)},
  {"PJRT_TopologyDescription_PlatformName_Args", "topology", offsetof(PJRT_TopologyDescription_PlatformName_Args, topology)},
  {"PJRT_TopologyDescription_PlatformName_Args", "platform_name", offsetof(PJRT_TopologyDescription_PlatformName_Args, platform_name)},
  {"PJRT_TopologyDescription_PlatformName_Args", "platform_name_size", offsetof(PJRT_TopologyDescription_PlatformName_Args, platform_name_size)},
  {"PJRT_TopologyDescription_GetDeviceDescriptions_Args", "", sizeof(PJRT_TopologyDescription_GetDeviceDescriptions_Args)},
  {"PJRT_TopologyDescription_GetDeviceDescriptions_Args", "struct_size", offsetof(PJRT_TopologyDescription_GetDeviceDescriptions_Args, struct_size)},
  {"PJRT_TopologyDescription_GetDeviceDescriptions_Args", "extension_start", offsetof(PJRT_TopologyDescription_GetDeviceDescriptions_Args, extension_start)},
  {"PJRT_TopologyDescription_GetDeviceDescriptions_Args", "topology", offsetof(PJRT_TopologyDescription_GetDeviceDescriptions_Args, topology)},
  {"PJRT_TopologyDescription_GetDeviceDescriptions_Args", "descriptions", offsetof(PJRT_TopologyDescription_GetDeviceDescriptions_Args, descriptions)},
  {"PJRT_TopologyDescription_GetDeviceDescriptions_Args", "num_descriptions", offsetof(PJRT_TopologyDescription_GetDeviceDescriptions_Args, num_descriptions)},
  {"PJRT_TopologyDescription_Serialize_Args", "", sizeof(PJRT_TopologyDescription_Serialize_Args)},
  {"PJRT_TopologyDescription_Serialize_Args", "struct_size", offsetof(PJRT_TopologyDescription_Serialize_Args, struct_size)},
  {"PJRT_TopologyDescription_Serialize_Args", "extension_start", offsetof(PJRT_TopologyDescription_Serialize_Args, extension_start)},
  {"PJRT_TopologyDescription_Serialize_Args", "topology", offsetof(PJRT_TopologyDescription_Serialize_Args, topology)},
  {"PJRT_TopologyDescription_Serialize_Args", "serialized_bytes", offsetof(PJRT_TopologyDescription_Serialize_Args, serialized_bytes)},
  {"PJRT_TopologyDescription_Serialize_Args", "serialized_bytes_size", offsetof(PJRT_TopologyDescription_Serialize_Args, serialized_bytes_size)},
  {"PJRT_TopologyDescription_Serialize_Args", "serialized_topology", offsetof(PJRT_TopologyDescription_Serialize_Args, serialized_topology)},
  {"PJRT_TopologyDescription_Serialize_Args", "serialized_topology_deleter", offsetof(PJRT_TopologyDescription_Serialize_Args, serialized_topology_deleter)},
  {"PJRT_TopologyDescription_Deserialize_Args", "", sizeof(PJRT_TopologyDescription_Deserialize_Args)},
  {"PJRT_TopologyDescription_Deserialize_Args", "struct_size", offsetof(PJRT_TopologyDescription_Deserialize_Args, struct_size)},
  {"PJRT_TopologyDescription_Deserialize_Args", "extension_start", offsetof(PJRT_TopologyDescription_Deserialize_Args, extension_start)},
  {"PJRT_TopologyDescription_Deserialize_Args", "serialized_topology", offsetof(PJRT_TopologyDescription_Deserialize_Args, serialized_topology)},
  {"PJRT_TopologyDescription_Deserialize_Args", "serialized_topology_size", offsetof(PJRT_TopologyDescription_Deserialize_Args, serialized_topology_size)},
  {"PJRT_TopologyDescription_Deserialize_Args", "topology", offsetof(PJRT_TopologyDescription_Deserialize_Args, topology)},
  {"PJRT_TopologyDescription_Attributes_Args", "", sizeof(PJRT_TopologyDescription_Attributes_Args)},
  {"PJRT_TopologyDescription_Attributes_Args", "struct_size", offsetof(PJRT_TopologyDescription_Attributes_Args, struct_size)},
  {"PJRT_TopologyDescription_Attributes_Args", "extension_start", offsetof(PJRT_TopologyDescription_Attributes_Args, extension_start)},
  {"PJRT_TopologyDescription_Attributes_Args", "topology", offsetof(PJRT_TopologyDescription_Attributes_Args, topology)},
  {"PJRT_TopologyDescription_Attributes_Args", "attributes", offsetof(PJRT_TopologyDescription_Attributes_Args, attributes)},
  {"PJRT_TopologyDescription_Attributes_Args", "num_attributes", offsetof(PJRT_TopologyDescription_Attributes_Args, num_attributes)},
  {"PJRT_TopologyDescription_Fingerprint_Args", "", sizeof(PJRT_TopologyDescription_Fingerprint_Args)},
  {"PJRT_TopologyDescription_Fingerprint_Args", "struct_size", offsetof(PJRT_TopologyDescription_Fingerprint_Args, struct_size)},
  {"PJRT_TopologyDescription_Fingerprint_Args", "extension_start", offsetof(PJRT_TopologyDescription_Fingerprint_Args, extension_start)},
  {"PJRT_TopologyDescription_Fingerprint_Args", "topology", offsetof(PJRT_TopologyDescription_Fingerprint_Args, topology)},
  {"PJRT_TopologyDescription_Fingerprint_Args", "fingerprint", offsetof(PJRT_TopologyDescription_Fingerprint_Args, fingerprint)},
  {"PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace_Args", "", sizeof(PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace_Args)},
  {"PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace_Args", "struct_size", offsetof(PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace_Args, struct_size)},
  {"PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace_Args", "extension_start", offsetof(PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace_Args, extension_start)},
  {"PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace_Args", "topology", offsetof(PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace_Args, topology)},
  {"PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace_Args", "memory_space_kind_id", offsetof(PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace_Args, memory_space_kind_id)},
  {"PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace_Args", "dims", offsetof(PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace_Args, dims)},
  {"PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace_Args", "num_dims", offsetof(PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace_Args, num_dims)},
  {"PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace_Args", "element_type", offsetof(PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace_Args, element_type)},
  {"PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace_Args", "layout", offsetof(PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace_Args, layout)},
  {"PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace_Args", "serialized_shape", offsetof(PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace_Args, serialized_shape)},
  {"PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace_Args", "serialized_shape_size", offsetof(PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace_Args, serialized_shape_size)},
  {"PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace_Args", "serialized_shape_deleter", offsetof(PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace_Args, serialized_shape_deleter)},
  {"PJRT_TopologyDescription_GetMemorySpaceKindIds_Args", "", sizeof(PJRT_TopologyDescription_GetMemorySpaceKindIds_Args)},
  {"PJRT_TopologyDescription_GetMemorySpaceKindIds_Args", "struct_size", offsetof(PJRT_TopologyDescription_GetMemorySpaceKindIds_Args, struct_size)},
  {"PJRT_TopologyDescription_GetMemorySpaceKindIds_Args", "extension_start", offsetof(PJRT_TopologyDescription_GetMemorySpaceKindIds_Args, extension_start)},
  {"PJRT_TopologyDescription_GetMemorySpaceKindIds_Args", "topology", offsetof(PJRT_TopologyDescription_GetMemorySpaceKindIds_Args, topology)},
  {"PJRT_TopologyDescription_GetMemorySpaceKindIds_Args", "memory_space_kind_ids", offsetof(PJRT_TopologyDescription_GetMemorySpaceKindIds_Args, memory_space_kind_ids)},
  {"PJRT_TopologyDescription_GetMemorySpaceKindIds_Args", "num_memory_space_kind_ids", offsetof(PJRT_TopologyDescription_GetMemorySpaceKindIds_Args, num_memory_space_kind_ids)},
  {"PJRT_Compile_Args", "", sizeof(PJRT_Compile_Args)},
  {"PJRT_Compile_Args", "struct_size", offsetof(PJRT_Compile_Args, struct_size)},
  {"PJRT_Compile_Args", "extension_start", offsetof(PJRT_Compile_Args, extension_start)},
  {"PJRT_Compile_Args", "topology", offsetof(PJRT_Compile_Args, topology)},
  {"PJRT_Compile_Args", "program", offsetof(PJRT_Compile_Args, program)},
  {"PJRT_Compile_Args", "compile_options", offsetof(PJRT_Compile_Args, compile_options)},
  {"PJRT_Compile_Args", "compile_options_size", offsetof(PJRT_Compile_Args, compile_options_size)},
  {"PJRT_Compile_Args", "client", offsetof(PJRT_Compile_Args, client)},
  {"PJRT_Compile_Args", "executable", offsetof(PJRT_Compile_Args, executable)},
  {"PJRT_Layouts_MemoryLayout_Destroy_Args", "", sizeof(PJRT_Layouts_MemoryLayout_Destroy_Args)},
  {"PJRT_Layouts_MemoryLayout_Destroy_Args", "struct_size", offsetof(PJRT_Layouts_MemoryLayout_Destroy_Args, struct_size)},
  {"PJRT_Layouts_MemoryLayout_Destroy_Args", "extension_start", offsetof(PJRT_Layouts_MemoryLayout_Destroy_Args, extension_start)},
  {"PJRT_Layouts_MemoryLayout_Destroy_Args", "layout", offsetof(PJRT_Layouts_MemoryLayout_Destroy_Args, layout)},
  {"PJRT_Layouts_MemoryLayout_Serialize_Args", "", sizeof(PJRT_Layouts_MemoryLayout_Serialize_Args)},
  {"PJRT_Layouts_MemoryLayout_Serialize_Args", "struct_size", offsetof(PJRT_Layouts_MemoryLayout_Serialize_Args, struct_size)},
  {"PJRT_Layouts_MemoryLayout_Serialize_Args", "extension_start", offsetof(PJRT_Layouts_MemoryLayout_Serialize_Args, extension_start)},
  {"PJRT_Layouts_MemoryLayout_Serialize_Args", "layout", offsetof(PJRT_Layouts_MemoryLayout_Serialize_Args, layout)},
  {"PJRT_Layouts_MemoryLayout_Serialize_Args", "serialized_bytes", offsetof(PJRT_Layouts_MemoryLayout_Serialize_Args, serialized_bytes)},
  {"PJRT_Layouts_MemoryLayout_Serialize_Args", "serialized_bytes_size", offsetof(PJRT_Layouts_MemoryLayout_Serialize_Args, serialized_bytes_size)},
  {"PJRT_Layouts_MemoryLayout_Serialize_Args", "serialized_layout", offsetof(PJRT_Layouts_MemoryLayout_Serialize_Args, serialized_layout)},
  {"PJRT_Layouts_MemoryLayout_Serialize_Args", "serialized_layout_deleter", offsetof(PJRT_Layouts_MemoryLayout_Serialize_Args, serialized_layout_deleter)},
  {"PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args", "", sizeof(PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args)},
  {"PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args", "struct_size", offsetof(PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args, struct_size)},
  {"PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args", "extension_start", offsetof(PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args, extension_start)},
  {"PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args", "buffer", offsetof(PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args, buffer)},
  {"PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args", "layout", offsetof(PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args, layout)},
  {"PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args", "", sizeof(PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args)},
  {"PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args", "struct_size", offsetof(PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args, struct_size)},
  {"PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args", "extension_start", offsetof(PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args, extension_start)},
  {"PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args", "client", offsetof(PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args, client)},
  {"PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args", "type", offsetof(PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args, type)},
  {"PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args", "dims", offsetof(PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args, dims)},
  {"PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args", "num_dims", offsetof(PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args, num_dims)},
  {"PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args", "layout", offsetof(PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args, layout)},
  {"PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args", "", sizeof(PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args)},
  {"PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args", "struct_size", offsetof(PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args, struct_size)},
  {"PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args", "extension_start", offsetof(PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args, extension_start)},
  {"PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args", "topology_description", offsetof(PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args, topology_description)},
  {"PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args", "type", offsetof(PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args, type)},
  {"PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args", "dims", offsetof(PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args, dims)},
  {"PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args", "num_dims", offsetof(PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args, num_dims)},
  {"PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args", "layout", offsetof(PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args, layout)},
  {"PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args", "", sizeof(PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args)},
  {"PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args", "struct_size", offsetof(PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args, struct_size)},
  {"PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args", "extension_start", offsetof(PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args, extension_start)},
  {"PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args", "executable", offsetof(PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args, executable)},
  {"PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args", "num_outputs", offsetof(PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args, num_outputs)},
  {"PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args", "layouts", offsetof(PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args, layouts)},
  {"PJRT_Layouts_PJRT_Executable_GetParameterLayouts_Args", "", sizeof(PJRT_Layouts_PJRT_Executable_GetParameterLayouts_Args)},
  {"PJRT_Layouts_PJRT_Executable_GetParameterLayouts_Args", "struct_size", offsetof(PJRT_Layouts_PJRT_Executable_GetParameterLayouts_Args, struct_size)},
  {"PJRT_Layouts_PJRT_Executable_GetParameterLayouts_Args", "extension_start", offsetof(PJRT_Layouts_PJRT_Executable_GetParameterLayouts_Args, extension_start)},
  {"PJRT_Layouts_PJRT_Executable_GetParameterLayouts_Args", "executable", offsetof(PJRT_Layouts_PJRT_Executable_GetParameterLayouts_Args, executable)},
  {"PJRT_Layouts_PJRT_Executable_GetParameterLayouts_Args", "num_parameters", offsetof(PJRT_Layouts_PJRT_Executable_GetParameterLayouts_Args, num_parameters)},
  {"PJRT_Layouts_PJRT_Executable_GetParameterLayouts_Args", "layouts", offsetof(PJRT_Layouts_PJRT_Executable_GetParameterLayouts_Args, layouts)},
  {"PJRT_Profiler_Extension", "", sizeof(PJRT_Profiler_Extension)},
  {"PJRT_Profiler_Extension", "base", offsetof(PJRT_Profiler_Extension, base)},
  {"PJRT_Profiler_Extension", "profiler_api", offsetof(PJRT_Profiler_Extension, profiler_api)},
  {"PJRT_Profiler_Extension", "traceme_context_id", offsetof(PJRT_Profiler_Extension, traceme_context_id)},
  {"PLUGIN_Profiler_Api", "", sizeof(PLUGIN_Profiler_Api)},
  {"PLUGIN_Profiler_Api", "struct_size", offsetof(PLUGIN_Profiler_Api, struct_size)},
  {"PLUGIN_Profiler_Api", "priv", offsetof(PLUGIN_Profiler_Api, priv)},
  {"PLUGIN_Profiler_Api", "error_destroy", offsetof(PLUGIN_Profiler_Api, error_destroy)},
  {"PLUGIN_Profiler_Api", "error_message", offsetof(PLUGIN_Profiler_Api, error_message)},
  {"PLUGIN_Profiler_Api", "error_get_code", offsetof(PLUGIN_Profiler_Api, error_get_code)},
  {"PLUGIN_Profiler_Api", "create", offsetof(PLUGIN_Profiler_Api, create)},
  {"PLUGIN_Profiler_Api", "destroy", offsetof(PLUGIN_Profiler_Api, destroy)},
  {"PLUGIN_Profiler_Api", "start", offsetof(PLUGIN_Profiler_Api, start)},
  {"PLUGIN_Profiler_Api", "stop", offsetof(PLUGIN_Profiler_Api, stop)},
  {"PLUGIN_Profiler_Api", "collect_data", offsetof(PLUGIN_Profiler_Api, collect_data)},
  {"PLUGIN_Profiler_Error_Destroy_Args", "", sizeof(PLUGIN_Profiler_Error_Destroy_Args)},
  {"PLUGIN_Profiler_Error_Destroy_Args", "struct_size", offsetof(PLUGIN_Profiler_Error_Destroy_Args, struct_size)},
  {"PLUGIN_Profiler_Error_Destroy_Args", "priv", offsetof(PLUGIN_Profiler_Error_Destroy_Args, priv)},
  {"PLUGIN_Profiler_Error_Destroy_Args", "error", offsetof(PLUGIN_Profiler_Error_Destroy_Args, error)},
  {"PLUGIN_Profiler_Error_Message_Args", "", sizeof(PLUGIN_Profiler_Error_Message_Args)},
  {"PLUGIN_Profiler_Error_Message_Args", "struct_size", offsetof(PLUGIN_Profiler_Error_Message_Args, struct_size)},
  {"PLUGIN_Profiler_Error_Message_Args", "priv", offsetof(PLUGIN_Profiler_Error_Message_Args, priv)},
  {"PLUGIN_Profiler_Error_Message_Args", "error", offsetof(PLUGIN_Profiler_Error_Message_Args, error)},
  {"PLUGIN_Profiler_Error_Message_Args", "message", offsetof(PLUGIN_Profiler_Error_Message_Args, message)},
  {"PLUGIN_Profiler_Error_Message_Args", "message_size", offsetof(PLUGIN_Profiler_Error_Message_Args, message_size)},
  {"PLUGIN_Profiler_Error_GetCode_Args", "", sizeof(PLUGIN_Profiler_Error_GetCode_Args)},
  {"PLUGIN_Profiler_Error_GetCode_Args", "struct_size", offsetof(PLUGIN_Profiler_Error_GetCode_Args, struct_size)},
  {"PLUGIN_Profiler_Error_GetCode_Args", "priv", offsetof(PLUGIN_Profiler_Error_GetCode_Args, priv)},
  {"PLUGIN_Profiler_Error_GetCode_Args", "error", offsetof(PLUGIN_Profiler_Error_GetCode_Args, error)},
  {"PLUGIN_Profiler_Error_GetCode_Args", "code", offsetof(PLUGIN_Profiler_Error_GetCode_Args, code)},
  {"PLUGIN_Profiler_Create_Args", "", sizeof(PLUGIN_Profiler_Create_Args)},
  {"PLUGIN_Profiler_Create_Args", "struct_size", offsetof(PLUGIN_Profiler_Create_Args, struct_size)},
  {"PLUGIN_Profiler_Create_Args", "options", offsetof(PLUGIN_Profiler_Create_Args, options)},
  {"PLUGIN_Profiler_Create_Args", "options_size", offsetof(PLUGIN_Profiler_Create_Args, options_size)},
  {"PLUGIN_Profiler_Create_Args", "profiler", offsetof(PLUGIN_Profiler_Create_Args, profiler)},
  {"PLUGIN_Profiler_Destroy_Args", "", sizeof(PLUGIN_Profiler_Destroy_Args)},
  {"PLUGIN_Profiler_Destroy_Args", "struct_size", offsetof(PLUGIN_Profiler_Destroy_Args, struct_size)},
  {"PLUGIN_Profiler_Destroy_Args", "profiler", offsetof(PLUGIN_Profiler_Destroy_Args, profiler)},
  {"PLUGIN_Profiler_Start_Args", "", sizeof(PLUGIN_Profiler_Start_Args)},
  {"PLUGIN_Profiler_Start_Args", "struct_size", offsetof(PLUGIN_Profiler_Start_Args, struct_size)},
  {"PLUGIN_Profiler_Start_Args", "profiler", offsetof(PLUGIN_Profiler_Start_Args, profiler)},
  {"PLUGIN_Profiler_Stop_Args", "", sizeof(PLUGIN_Profiler_Stop_Args)},
  {"PLUGIN_Profiler_Stop_Args", "struct_size", offsetof(PLUGIN_Profiler_Stop_Args, struct_size)},
  {"PLUGIN_Profiler_Stop_Args", "profiler", offsetof(PLUGIN_Profiler_Stop_Args, profiler)},
  {"PLUGIN_Profiler_CollectData_Args", "", sizeof(PLUGIN_Profiler_CollectData_Args)},
  {"PLUGIN_Profiler_CollectData_Args", "struct_size", offsetof(PLUGIN_Profiler_CollectData_Args, struct_size)},
  {"PLUGIN_Profiler_CollectData_Args", "profiler", offsetof(PLUGIN_Profiler_CollectData_Args, profiler)},
  {"PLUGIN_Profiler_CollectData_Args", "buffer", offsetof(PLUGIN_Profiler_CollectData_Args, buffer)},
  {"PLUGIN_Profiler_CollectData_Args", "buffer_size_in_bytes", offsetof(PLUGIN_Profiler_CollectData_Args, buffer_size_in_bytes)},
  {0, 0, 0},
};

/* X(index, entry) for each entry of PJRT_Api */
#define TILESTEP_PJRT_Api_ENTRIES(X) \
  X(0, PJRT_Error_Destroy) \
  X(1, PJRT_Error_Message) \
  X(2, PJRT_Error_GetCode) \
  X(3, PJRT_Plugin_Initialize) \
  X(4, PJRT_Plugin_Attributes) \
  X(5, PJRT_Event_Destroy) \
  X(6, PJRT_Event_IsReady) \
  X(7, PJRT_Event_Error) \
  X(8, PJRT_Event_Await) \
  X(9, PJRT_Event_OnReady) \
  X(10, PJRT_Client_Create) \
  X(11, PJRT_Client_Destroy) \
  X(12, PJRT_Client_PlatformName) \
  X(13, PJRT_Client_ProcessIndex) \
  X(14, PJRT_Client_PlatformVersion) \
  X(15, PJRT_Client_Devices) \
  X(16, PJRT_Client_AddressableDevices) \
  X(17, PJRT_Client_LookupDevice) \
  X(18, PJRT_Client_LookupAddressableDevice) \
  X(19, PJRT_Client_AddressableMemories) \
  X(20, PJRT_Client_Compile) \
  X(21, PJRT_Client_DefaultDeviceAssignment) \
  X(22, PJRT_Client_BufferFromHostBuffer) \
  X(23, PJRT_DeviceDescription_Id) \
  X(24, PJRT_DeviceDescription_ProcessIndex) \
  X(25, PJRT_DeviceDescription_Attributes) \
  X(26, PJRT_DeviceDescription_Kind) \
  X(27, PJRT_DeviceDescription_DebugString) \
  X(28, PJRT_DeviceDescription_ToString) \
  X(29, PJRT_Device_GetDescription) \
  X(30, PJRT_Device_IsAddressable) \
  X(31, PJRT_Device_LocalHardwareId) \
  X(32, PJRT_Device_AddressableMemories) \
  X(33, PJRT_Device_DefaultMemory) \
  X(34, PJRT_Device_MemoryStats) \
  X(35, PJRT_Memory_Id) \
  X(36, PJRT_Memory_Kind) \
  X(37, PJRT_Memory_DebugString) \
  X(38, PJRT_Memory_ToString) \
  X(39, PJRT_Memory_AddressableByDevices) \
  X(40, PJRT_Executable_Destroy) \
  X(41, PJRT_Executable_Name) \
  X(42, PJRT_Executable_NumReplicas) \
  X(43, PJRT_Executable_NumPartitions) \
  X(44, PJRT_Executable_NumOutputs) \
  X(45, PJRT_Executable_SizeOfGeneratedCodeInBytes) \
  X(46, PJRT_Executable_GetCostAnalysis) \
  X(47, PJRT_Executable_OutputMemoryKinds) \
  X(48, PJRT_Executable_OptimizedProgram) \
  X(49, PJRT_Executable_Serialize) \
  X(50, PJRT_LoadedExecutable_Destroy) \
  X(51, PJRT_LoadedExecutable_GetExecutable) \
  X(52, PJRT_LoadedExecutable_AddressableDevices) \
  X(53, PJRT_LoadedExecutable_Delete) \
  X(54, PJRT_LoadedExecutable_IsDeleted) \
  X(55, PJRT_LoadedExecutable_Execute) \
  X(56, PJRT_Executable_DeserializeAndLoad) \
  X(57, PJRT_LoadedExecutable_Fingerprint) \
  X(58, PJRT_Buffer_Destroy) \
  X(59, PJRT_Buffer_ElementType) \
  X(60, PJRT_Buffer_Dimensions) \
  X(61, PJRT_Buffer_UnpaddedDimensions) \
  X(62, PJRT_Buffer_DynamicDimensionIndices) \
  X(63, PJRT_Buffer_GetMemoryLayout) \
  X(64, PJRT_Buffer_OnDeviceSizeInBytes) \
  X(65, PJRT_Buffer_Device) \
  X(66, PJRT_Buffer_Memory) \
  X(67, PJRT_Buffer_Delete) \
  X(68, PJRT_Buffer_IsDeleted) \
  X(69, PJRT_Buffer_CopyToDevice) \
  X(70, PJRT_Buffer_ToHostBuffer) \
  X(71, PJRT_Buffer_IsOnCpu) \
  X(72, PJRT_Buffer_ReadyEvent) \
  X(73, PJRT_Buffer_UnsafePointer) \
  X(74, PJRT_Buffer_IncreaseExternalReferenceCount) \
  X(75, PJRT_Buffer_DecreaseExternalReferenceCount) \
  X(76, PJRT_Buffer_OpaqueDeviceMemoryDataPointer) \
  X(77, PJRT_CopyToDeviceStream_Destroy) \
  X(78, PJRT_CopyToDeviceStream_AddChunk) \
  X(79, PJRT_CopyToDeviceStream_TotalBytes) \
  X(80, PJRT_CopyToDeviceStream_GranuleSize) \
  X(81, PJRT_CopyToDeviceStream_CurrentBytes) \
  X(82, PJRT_TopologyDescription_Create) \
  X(83, PJRT_TopologyDescription_Destroy) \
  X(84, PJRT_TopologyDescription_PlatformName) \
  X(85, PJRT_TopologyDescription_PlatformVersion) \
  X(86, PJRT_TopologyDescription_GetDeviceDescriptions) \
  X(87, PJRT_TopologyDescription_Serialize) \
  X(88, PJRT_TopologyDescription_Attributes) \
  X(89, PJRT_Compile) \
  X(90, PJRT_Executable_OutputElementTypes) \
  X(91, PJRT_Executable_OutputDimensions) \
  X(92, PJRT_Buffer_CopyToMemory) \
  X(93, PJRT_Client_CreateViewOfDeviceBuffer) \
  X(94, PJRT_Executable_Fingerprint) \
  X(95, PJRT_Client_TopologyDescription) \
  X(96, PJRT_Executable_GetCompiledMemoryStats) \
  X(97, PJRT_Memory_Kind_Id) \
  X(98, PJRT_ExecuteContext_Create) \
  X(99, PJRT_ExecuteContext_Destroy) \
  X(100, PJRT_Buffer_CopyRawToHost) \
  X(101, PJRT_AsyncHostToDeviceTransferManager_Destroy) \
  X(102, PJRT_AsyncHostToDeviceTransferManager_TransferData) \
  X(103, PJRT_Client_CreateBuffersForAsyncHostToDevice) \
  X(104, PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer) \
  X(105, PJRT_AsyncHostToDeviceTransferManager_Device) \
  X(106, PJRT_AsyncHostToDeviceTransferManager_BufferCount) \
  X(107, PJRT_AsyncHostToDeviceTransferManager_BufferSize) \
  X(108, PJRT_AsyncHostToDeviceTransferManager_SetBufferError) \
  X(109, PJRT_AsyncHostToDeviceTransferManager_AddMetadata) \
  X(110, PJRT_Client_DmaMap) \
  X(111, PJRT_Client_DmaUnmap) \
  X(112, PJRT_Client_CreateUninitializedBuffer) \
  X(113, PJRT_Client_UpdateGlobalProcessInfo) \
  X(114, PJRT_TopologyDescription_Deserialize) \
  X(115, PJRT_Client_CreateAliasBuffer) \
  X(116, PJRT_Client_FulfillAliasBuffer) \
  X(117, PJRT_LoadedExecutable_GetDeviceAssignment) \
  X(118, PJRT_Client_CreateErrorBuffer) \
  X(119, PJRT_AsyncHostToDeviceTransferManager_TransferLiteral) \
  X(120, PJRT_Buffer_CopyRawToHostFuture) \
  X(121, PJRT_Device_PoisonExecution) \
  X(122, PJRT_Device_CreateAsyncTrackingEvent) \
  X(123, PJRT_AsyncTrackingEvent_Destroy) \
  X(124, PJRT_Executable_GetCompileOptions) \
  X(125, PJRT_Buffer_DonateWithControlDependency) \
  X(126, PJRT_Event_Create) \
  X(127, PJRT_Event_Set) \
  X(128, PJRT_Device_GetAttributes) \
  X(129, PJRT_Client_Load) \
  X(130, PJRT_LoadedExecutable_AddressableDeviceLogicalIds) \
  X(131, PJRT_Buffer_Bitcast) \
  X(132, PJRT_Error_ForEachPayload) \
  X(133, PJRT_TopologyDescription_Fingerprint) \
  X(134, PJRT_Executable_ParameterMemoryKinds) \
  X(135, PJRT_Device_ClearMemoryStats) \
  X(136, PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace) \
  X(137, PJRT_TopologyDescription_GetMemorySpaceKindIds)

/* X(index, entry) for each entry of PJRT_Layouts_Extension */
#define TILESTEP_PJRT_Layouts_Extension_ENTRIES(X) \
  X(0, PJRT_Layouts_MemoryLayout_Destroy) \
  X(1, PJRT_Layouts_MemoryLayout_Serialize) \
  X(2, PJRT_Layouts_PJRT_Client_GetDefaultLayout) \
  X(3, PJRT_Layouts_PJRT_Buffer_MemoryLayout) \
  X(4, PJRT_Layouts_PJRT_Topology_GetDefaultLayout) \
  X(5, PJRT_Layouts_PJRT_Executable_GetOutputLayouts) \
  X(6, PJRT_Layouts_PJRT_Executable_GetParameterLayouts)

#endif
