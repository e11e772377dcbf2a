# cpack runs this when the files of all packages lie in folders of their own: adds what Debian wants
# in each package and compresses the documents.
foreach(component ${CPACK_COMPONENTS_ALL})
  string(TOUPPER ${component} upper)
  set(package ${CPACK_DEBIAN_${upper}_PACKAGE_NAME})
  set(root ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/${component}/usr)
  file(COPY ${CPACK_RIFFLE_DEBIAN}/copyright DESTINATION ${root}/share/doc/${package})
  configure_file(${CPACK_RIFFLE_DEBIAN}/changelog
    ${root}/share/doc/${package}/changelog.Debian COPYONLY)
  if(EXISTS ${CPACK_RIFFLE_DEBIAN}/${package}.lintian-overrides)
    configure_file(${CPACK_RIFFLE_DEBIAN}/${package}.lintian-overrides
      ${root}/share/lintian/overrides/${package} COPYONLY)
  endif()
  file(GLOB documents ${root}/share/doc/${package}/changelog.Debian ${root}/share/man/man1/*.1)
  execute_process(COMMAND gzip -9n ${documents} COMMAND_ERROR_IS_FATAL ANY)
  file(GLOB_RECURSE archives ${root}/lib/*.a)
  foreach(archive ${archives})
    execute_process(COMMAND strip --strip-debug --remove-section=.comment
      --remove-section=.note ${archive} COMMAND_ERROR_IS_FATAL ANY)
  endforeach()
  # What is installed may be read by all, whatever the umask of the build.
  file(CHMOD_RECURSE ${root}/share FILE_PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ
    DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ
    WORLD_EXECUTE)
endforeach()
