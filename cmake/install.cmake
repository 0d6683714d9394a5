# make install: the program, the headers and, for find_package(bigmac), every room as bigmac::ROOM and all that a
# training program needs as bigmac::bigmac.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/bigmac)
get_property(rooms GLOBAL PROPERTY BIGMAC_ROOMS)
if(BIGMAC_RUNTIME)
  add_library(bigmac_bigmac INTERFACE)
  set_target_properties(bigmac_bigmac PROPERTIES EXPORT_NAME bigmac)
  target_link_libraries(bigmac_bigmac INTERFACE bigmac_train bigmac_nn bigmac_data)
  list(APPEND rooms bigmac_bigmac)
endif()
install(TARGETS ${rooms} EXPORT bigmacTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT bigmacTargets NAMESPACE bigmac:: DESTINATION ${package_dir})
install(TARGETS bigmac RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY bigmac DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
configure_package_config_file(cmake/bigmacConfig.cmake.in bigmacConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(bigmacConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/bigmacConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/bigmacConfigVersion.cmake
              cmake/torch.cmake DESTINATION ${package_dir})
